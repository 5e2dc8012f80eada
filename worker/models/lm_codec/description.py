"""What a model is described by: prompt, voices, tokens, codec, lengths.

See docs/lm-codec.md. Light: read by the caller's side too.
"""

from __future__ import annotations

import string
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from engine.errors import ConfigError, InvalidRequestError
from engine.messages import SamplingParams
from engine.strict import convert, load_yaml
from worker.vllm.sampling import MAX_GUIDANCE_SCALE, TokenSampling, read_sampling

DESCRIPTION_DIR = Path(__file__).parent / "descriptions"

CodecKind: TypeAlias = Literal["snac", "dac", "mimi", "neucodec", "xcodec2"]
Token: TypeAlias = int | str


class Reference(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A recording that a voice is cloned from: what is said in it, and the file of its codes.

    ``codes``: a JSON list with one list of codes per frame, in the order of ``tokens.frame``; a
    relative path counts from the description's folder.
    """

    text: str
    codes: str


class VoiceSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A voice as clients see it, with the values that it gives to fields of the prompt."""

    id: str
    name: str
    language: str
    gender: Literal["female", "male", "neutral"]
    description: str
    aliases: tuple[str, ...] = ()
    fields: dict[str, str] = msgspec.field(default_factory=dict)
    reference: Reference | None = None


class ChatMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message for the tokenizer's chat template; ``content`` may name control tokens."""

    role: str
    content: str


class Piece(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A piece of the prompt: one of its keys.

    ``text`` may hold fields in braces and becomes ordinary tokens, whatever it says. ``tokens``
    are control tokens, by id or by name. ``reference`` stands for the codes of the voice's
    recording. ``chat`` goes through the tokenizer's own chat template, its last message is for the
    model to continue; fields in it become ordinary tokens, too.
    """

    text: str | None = None
    tokens: tuple[Token, ...] = ()
    reference: bool = False
    chat: tuple[ChatMessage, ...] = ()

    def __post_init__(self) -> None:
        if (self.text is not None) + bool(self.tokens) + self.reference + bool(self.chat) != 1:
            raise ValueError("a piece of a prompt has one of: text, tokens, reference, chat")

    @property
    def field_names(self) -> frozenset[str]:
        texts = [self.text or "", *(message.content for message in self.chat)]
        parts = [part for text in texts for part in string.Formatter().parse(text)]
        return frozenset(name for _, name, _, _ in parts if name is not None)


class Slot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One token of a frame: code c of ``codebook`` is token ``first`` + c.

    ``first`` is an id, or the name of the token of code 0.
    """

    codebook: int
    first: Token


class Tokens(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``frame`` in the order in which the model says it. Tokens that are no codes are errors, or
    skipped where a model says other things in between: at most ``overhead`` tokens per code."""

    frame: tuple[Slot, ...]
    stop: tuple[Token, ...]
    others: Literal["error", "skip"] = "error"
    overhead: float = 1.0

    def __post_init__(self) -> None:
        if self.overhead < 1 or (self.others == "error" and self.overhead != 1):
            raise ValueError("tokens.overhead must be at least 1, and 1 where others are errors")
        if not self.frame or not self.stop:
            raise ValueError("tokens needs at least one slot in frame and one token in stop")


class CodecSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The codec's model (hub id or path), and what it must turn out to be when it is loaded.

    A chunk is decoded with ``left_frames`` and ``right_frames`` around it, which are cut off
    again. ``file`` of ``model`` is a checkpoint in DAC's own format; without it the checkpoint is
    one of transformers (of the package, for SNAC).
    """

    kind: CodecKind
    model: str
    file: str | None = None
    sample_rate: int
    frame_samples: int
    codebook_sizes: tuple[int, ...]
    left_frames: int
    right_frames: int

    def __post_init__(self) -> None:
        if self.file is not None and self.kind != "dac":
            raise ValueError(f"codec.file is for kind dac, not {self.kind}")
        for key in ("sample_rate", "frame_samples"):
            if getattr(self, key) < 1:
                raise ValueError(f"codec.{key} must be at least 1")
        for key in ("left_frames", "right_frames"):
            if getattr(self, key) < 0:
                raise ValueError(f"codec.{key} must be at least 0")


class Lengths(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How long speech may be for its text; what is outside is an error, not audio.

    ``max_ms_per_char`` and ``slack_ms`` bound a stream that never ends, ``min_ms_per_char`` one
    that ends early. A text is said in units of at most ``max_chars``. Bounds from above count
    characters by what they take to say: see ``texts.spoken_length``.
    """

    max_chars: int
    max_ms_per_char: float
    slack_ms: float
    min_ms_per_char: float

    def __post_init__(self) -> None:
        if self.max_chars < 1 or not 0 <= self.min_ms_per_char < self.max_ms_per_char:
            raise ValueError(
                "lengths: max_chars must be at least 1 and min_ms_per_char below max_ms_per_char"
            )
        if self.slack_ms < 0:
            raise ValueError("lengths.slack_ms must be at least 0")


class Guidance(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The prompt of the unconditional rows, and how strong guidance may be."""

    null_prompt: tuple[Piece, ...]
    default_scale: float = 1.0
    max_scale: float = 10.0

    def __post_init__(self) -> None:
        if not 0 <= self.default_scale <= self.max_scale <= MAX_GUIDANCE_SCALE:
            raise ValueError(
                "guidance: default_scale must be from 0 to max_scale, and that at most "
                f"{MAX_GUIDANCE_SCALE:g}"
            )


class Description(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A codec-token language model. ``languages`` are BCP 47 tags that any voice can speak.

    ``text_func`` (dotted path) turns a text into what the model reads (phonemes, say), in the
    worker. ``instructions_field`` is the field of the prompt that a request's instructions fill.
    """

    name: str
    licence: str
    prompt: tuple[Piece, ...]
    voices: tuple[VoiceSpec, ...]
    tokens: Tokens
    codec: CodecSpec
    lengths: Lengths
    sampling: SamplingParams = SamplingParams()
    guidance: Guidance | None = None
    languages: tuple[str, ...] = ()
    text_func: str | None = None
    instructions_field: str | None = None

    def __post_init__(self) -> None:
        if not self.voices:
            raise ValueError("voices must hold at least one voice")
        _check_slots(self.tokens, self.codec)
        _check_sampling(self.sampling)
        for voice in self.voices:
            _check_voice(voice, all_pieces(self))

    @property
    def frame_ms(self) -> float:
        return 1000 * self.codec.frame_samples / self.codec.sample_rate

    @property
    def num_slots(self) -> int:
        return len(self.tokens.frame)


def all_pieces(description: Description) -> tuple[Piece, ...]:
    """Those of the prompt and of the null prompt."""
    guidance = description.guidance
    return description.prompt + (guidance.null_prompt if guidance else ())


def _check_slots(tokens: Tokens, codec: CodecSpec) -> None:
    counts = Counter(slot.codebook for slot in tokens.frame)
    if sorted(counts) != list(range(len(codec.codebook_sizes))):
        raise ValueError(
            f"tokens.frame must name each codebook from 0 to {len(codec.codebook_sizes) - 1}, "
            f"as codec.codebook_sizes has them, and no other; got {sorted(counts)}"
        )


def _check_sampling(sampling: SamplingParams) -> None:
    """Every request is sampled so: none should hear of what it did not ask for."""
    try:
        read_sampling(sampling, TokenSampling(max_tokens=1))
    except InvalidRequestError as error:
        raise ValueError(f"sampling: {error.message}") from error


def _check_voice(voice: VoiceSpec, pieces: tuple[Piece, ...]) -> None:
    known = {"text", "reference_text", *voice.fields}
    unknown = sorted({name for piece in pieces for name in piece.field_names} - known)
    if unknown:
        raise ValueError(
            f"the prompt has a field {unknown[0]!r} that voice {voice.id!r} gives no value to"
        )
    if voice.reference is None and any(
        piece.reference or "reference_text" in piece.field_names for piece in pieces
    ):
        raise ValueError(f"the prompt needs a reference, and voice {voice.id!r} has none")


def list_descriptions() -> list[str]:
    """Names of the descriptions that ship with the server."""
    return sorted(path.stem for path in DESCRIPTION_DIR.glob("*.yaml"))


def description_path(name_or_path: str) -> Path:
    """The file of a shipped description's name, or of a path to a YAML file."""
    if name_or_path.endswith((".yaml", ".yml")):
        return Path(name_or_path)
    if name_or_path in list_descriptions():
        return DESCRIPTION_DIR / f"{name_or_path}.yaml"
    known = ", ".join(list_descriptions())
    raise ConfigError(f"unknown description {name_or_path!r}; known: {known}, or a path to a .yaml")


@lru_cache(maxsize=8)
def load_description(name_or_path: str) -> Description:
    """The description of that name or file. Raises ``ConfigError``."""
    path = description_path(name_or_path)
    return convert(load_yaml(path), Description, path.name)
