"""Reads audio of any kind that clients send, piece by piece, as the recogniser hears it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, BinaryIO

import av
import numpy as np
import numpy.typing as npt
from av.audio.frame import AudioFrame

from engine.errors import InvalidRequestError

# What recognisers and voice activity detection hear.
SAMPLE_RATE = 16_000
# Demuxers that read one file and nothing else. Playlists (hls, concat, dash) would have FFmpeg open
# whatever files and addresses they name.
_DEMUXERS = (
    "aac,ac3,aiff,amr,asf,au,avi,caf,eac3,flac,flv,gsm,matroska,mov,mp3,mpeg,mpegts,ogg,opus,w64,wav,"
    "webm,wv"
)
_EXPECTED = "audio in flac, m4a, mp3, mp4, mpeg, mpga, oga, ogg, wav or webm"
# FFmpeg's own tools go on after packets that cannot be decoded; a file of only such is no audio.
_MAX_BAD_PACKETS = 100

Samples = npt.NDArray[np.float32]


class AudioReader:
    """One file, mono at 16 kHz, at most some frames of it in memory.

    All methods may take long and raise ``InvalidRequestError`` about ``param``.
    """

    def __init__(self, file: BinaryIO, param: str = "file") -> None:
        self._param = param
        self._held: deque[Samples] = deque()
        self._num_held = 0
        self._num_read = 0
        self._container = self._open(file)
        self._frames = self._decoded()
        self._resampler: av.AudioResampler | None = None
        self._layout: tuple[Any, ...] | None = None

    def read(self, num_samples: int) -> Samples:
        """The next samples, float32 [num_samples]; fewer at the end of the file."""
        while self._num_held < num_samples:
            piece = next(self._frames, None)
            if piece is None:
                break
            self._held.append(piece)
            self._num_held += len(piece)
        taken = self._take(min(num_samples, self._num_held))
        self._num_read += len(taken)
        if self._num_read == 0:
            raise self._refuse("it holds no audio that can be decoded")
        return taken

    def close(self) -> None:
        self._container.close()

    def _take(self, num_samples: int) -> Samples:
        parts = []
        self._num_held -= num_samples
        while num_samples:
            head = self._held.popleft()
            if len(head) > num_samples:
                self._held.appendleft(head[num_samples:])
                head = head[:num_samples]
            parts.append(head)
            num_samples -= len(head)
        if not parts:
            return np.zeros(0, np.float32)
        # A file of floats may hold anything.
        return np.clip(np.nan_to_num(np.concatenate(parts), copy=False), -1.0, 1.0)

    def _open(self, file: BinaryIO) -> Any:
        try:
            container = av.open(
                file,
                "r",
                options={"format_whitelist": _DEMUXERS, "protocol_whitelist": ""},
                metadata_errors="ignore",
            )
        except (av.error.FFmpegError, ValueError) as error:
            raise self._refuse("its format is not recognised") from error
        if not container.streams.audio:
            container.close()
            raise self._refuse("it has no audio track")
        return container

    def _decoded(self) -> Iterator[Samples]:
        stream = self._container.streams.audio[0]
        num_bad = 0
        for packet in self._packets(stream):
            try:
                frames = packet.decode()
            except av.error.EOFError:
                return
            except (av.error.FFmpegError, ValueError):
                num_bad += 1
                if num_bad > _MAX_BAD_PACKETS and self._num_read == 0:
                    return
                continue
            for frame in frames:
                yield from self._resampled(frame)
        yield from self._resampled(None)

    def _packets(self, stream: Any) -> Iterator[Any]:
        """The stream's packets, up to where the container can be followed."""
        packets = self._container.demux(stream)
        while True:
            try:
                packet = next(packets, None)
            except (av.error.FFmpegError, ValueError):
                return
            if packet is None:
                return
            yield packet

    def _resampled(self, frame: AudioFrame | None) -> Iterator[Samples]:
        """Mono at 16 kHz; a stream may change its layout on the way. None is the end."""
        layout = None if frame is None else (frame.format.name, frame.layout.name, frame.rate)
        if frame is not None and layout != self._layout:
            yield from self._resampled(None)
            self._resampler = av.AudioResampler("fltp", "mono", SAMPLE_RATE)
            self._layout = layout
        if self._resampler is None:
            return
        if frame is not None:
            frame.pts = None
        for resampled in self._resampler.resample(frame):
            # The plane may be longer than its samples.
            yield np.frombuffer(bytes(resampled.planes[0]), np.float32)[: resampled.samples]

    def _refuse(self, reason: str) -> InvalidRequestError:
        return InvalidRequestError(
            f"{self._param} must be {_EXPECTED}; {reason}", param=self._param
        )
