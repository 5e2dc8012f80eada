"""ElevenLabs' ``output_format``: codec, sample rate and bit rate in one name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from server.audio.formats import CONTENT_TYPES, AudioFormat
from server.audio.g711 import G711Law

DEFAULT_FORMAT: Final = "mp3_44100_128"
_MP3: Final = ((22050, 32), (24000, 48), *((44100, rate) for rate in (32, 64, 96, 128, 192)))
_OPUS_KBITS: Final = (32, 64, 96, 128, 192)
_PCM_RATES: Final = (8000, 16000, 22050, 24000, 32000, 44100, 48000)
# RFC 2046 gives mu-law at 8000 Hz this type; A-law has none but the one of RTP.
_LAW_TYPES: Final = {G711Law.ULAW: "audio/basic", G711Law.ALAW: "audio/PCMA"}


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """How a response is coded; ``bit_rate`` in bit/s, None for the codec's own."""

    fmt: AudioFormat
    sample_rate: int
    bit_rate: int | None = None
    law: G711Law | None = None

    @property
    def content_type(self) -> str:
        return CONTENT_TYPES[self.fmt] if self.law is None else _LAW_TYPES[self.law]


# Those that a stream of messages can carry: wav has its length in front.
SOCKET_FORMATS: Final[dict[str, OutputFormat]] = {
    **{
        f"mp3_{rate}_{kbits}": OutputFormat(AudioFormat.MP3, rate, kbits * 1000)
        for rate, kbits in _MP3
    },
    **{f"pcm_{rate}": OutputFormat(AudioFormat.PCM, rate) for rate in _PCM_RATES},
    **{f"{law}_8000": OutputFormat(AudioFormat.PCM, 8000, law=law) for law in G711Law},
    **{
        f"opus_48000_{kbits}": OutputFormat(AudioFormat.OPUS, 48000, kbits * 1000)
        for kbits in _OPUS_KBITS
    },
}
FORMATS: Final[dict[str, OutputFormat]] = {
    **SOCKET_FORMATS,
    **{f"wav_{rate}": OutputFormat(AudioFormat.WAV, rate) for rate in _PCM_RATES},
}
