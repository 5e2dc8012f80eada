"""Where ``voxloom say`` puts its audio: a file, standard output, a player, or two of them."""

from __future__ import annotations

import os
import shutil
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Protocol

from engine.errors import ConfigError
from server.audio.encoder import Encoder, open_encoder
from server.audio.formats import AudioFormat

# Offsets of the two sizes in a canonical 44-byte WAV header, and what the first one leaves out.
_RIFF_SIZE_AT, _DATA_SIZE_AT = 4, 40
_RIFF_SIZE_SKIPS = 8
_WAV_HEADER_BYTES = 44


class Sink(Protocol):
    """Takes int16 LE mono. ``commit`` says that the speech is whole."""

    def write(self, pcm: memoryview) -> None: ...

    def commit(self) -> None: ...


@contextmanager
def open_sink(
    output: str | None, fmt: AudioFormat, sample_rate: int, *, play: bool
) -> Iterator[Sink]:
    """The sinks that were asked for, as one. Without ``commit`` no file is left behind."""
    with ExitStack() as stack:
        sinks: list[Sink] = []
        if play:
            sinks.append(stack.enter_context(_player(sample_rate)))
        if output is not None:
            encoder = open_encoder(fmt, source_rate=sample_rate, streaming=True)
            stack.callback(encoder.discard)
            sinks.append(stack.enter_context(_encoded(output, fmt, encoder)))
        yield _Both(sinks)


class _Both:
    def __init__(self, sinks: Sequence[Sink]) -> None:
        self._sinks = sinks

    def write(self, pcm: memoryview) -> None:
        for sink in self._sinks:
            sink.write(pcm)

    def commit(self) -> None:
        for sink in self._sinks:
            sink.commit()


@contextmanager
def _encoded(output: str, fmt: AudioFormat, encoder: Encoder) -> Iterator[Sink]:
    """A file appears under its name when it is whole; a pipe or device is written as it goes."""
    path = Path(output)
    if output == "-":
        yield _EncodedStream(sys.stdout.buffer, encoder)
    elif path.exists() and not stat.S_ISREG(path.stat().st_mode):
        with path.open("wb") as stream:
            yield _EncodedStream(stream, encoder)
    else:
        partial = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            with partial.open("w+b") as stream:
                yield _EncodedFile(stream, encoder, fmt, path, partial)
        finally:
            partial.unlink(missing_ok=True)


class _EncodedStream:
    def __init__(self, stream: IO[bytes], encoder: Encoder) -> None:
        self._stream = stream
        self._encoder = encoder

    def write(self, pcm: memoryview) -> None:
        self._stream.write(self._encoder.encode(pcm))
        self._stream.flush()

    def commit(self) -> None:
        self._stream.write(self._encoder.close())
        self._stream.flush()


class _EncodedFile(_EncodedStream):
    def __init__(
        self, stream: IO[bytes], encoder: Encoder, fmt: AudioFormat, path: Path, partial: Path
    ) -> None:
        super().__init__(stream, encoder)
        self._fmt = fmt
        self._path = path
        self._partial = partial

    def commit(self) -> None:
        super().commit()
        if self._fmt is AudioFormat.WAV:
            _write_wav_sizes(self._stream)
        self._stream.flush()
        os.replace(self._partial, self._path)


def _write_wav_sizes(stream: IO[bytes]) -> None:
    """The header was written when the length was not known; files over 4 GiB keep it so."""
    num_bytes = stream.seek(0, os.SEEK_END)
    if num_bytes > 0xFFFFFFFF:
        return
    stream.seek(_RIFF_SIZE_AT)
    stream.write(struct.pack("<I", num_bytes - _RIFF_SIZE_SKIPS))
    stream.seek(_DATA_SIZE_AT)
    stream.write(struct.pack("<I", num_bytes - _WAV_HEADER_BYTES))


def player_command(sample_rate: int) -> list[str]:
    """A player that reads raw int16 mono from standard input. Raises ``ConfigError``."""
    rate = str(sample_rate)
    commands = {
        "pacat": ["--playback", "--raw", "--format=s16le", "--channels=1", f"--rate={rate}"],
        "aplay": ["-q", "-t", "raw", "-f", "S16_LE", "-c", "1", "-r", rate],
        "play": ["-q", "-t", "raw", "-e", "signed", "-b", "16", "-c", "1", "-r", rate, "-"],
        "ffplay": ["-loglevel", "error", "-nodisp", "-autoexit", "-f", "s16le", "-ar", rate, "-"],
    }
    for program, arguments in commands.items():
        if path := shutil.which(program):
            return [path, *arguments]
    raise ConfigError(f"--play needs one of {', '.join(commands)}, and none is installed")


@contextmanager
def _player(sample_rate: int) -> Iterator[Sink]:
    command = player_command(sample_rate)
    process = subprocess.Popen(command, stdin=subprocess.PIPE)  # noqa: S603
    try:
        assert process.stdin is not None
        yield _Player(process, process.stdin)
    finally:
        process.kill()
        process.wait()


class _Player:
    def __init__(self, process: subprocess.Popen[bytes], stream: IO[bytes]) -> None:
        self._process = process
        self._stream = stream

    def write(self, pcm: memoryview) -> None:
        self._stream.write(pcm)
        self._stream.flush()

    def commit(self) -> None:
        """Wait until the last sample has been played."""
        self._stream.close()
        if status := self._process.wait():
            raise OSError(f"the player ended with status {status}")
