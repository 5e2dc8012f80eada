"""Descriptions of small models, made from those that ship."""

from __future__ import annotations

from pathlib import Path

import msgspec

from worker.models.lm_codec.description import CodecSpec, Description, Slot, load_description

SNAC_COLUMNS = (1, 2, 4)


def orpheus_like(codec: Path, codebook_size: int = 64) -> Description:
    """Orpheus with a codec of fewer codes; token ids begin at 1000."""
    spec = load_description("orpheus-3b")
    slots = tuple(
        Slot(slot.codebook, 1000 + number * codebook_size)
        for number, slot in enumerate(spec.tokens.frame)
    )
    return msgspec.structs.replace(
        spec,
        tokens=msgspec.structs.replace(spec.tokens, frame=slots, stop=(999,)),
        codec=msgspec.structs.replace(
            spec.codec, model=str(codec), codebook_sizes=(codebook_size,) * 3
        ),
    )


def of_kind(kind: str, codec: Path, *, left: int, right: int) -> Description:
    """A description of a small codec of any kind."""
    if kind == "snac":
        spec = orpheus_like(codec)
        return with_context(spec, left, right)
    rate, samples, sizes = _SHAPES[kind]
    spec = load_description("llasa-1b")
    return msgspec.structs.replace(
        spec,
        tokens=msgspec.structs.replace(
            spec.tokens,
            frame=tuple(Slot(book, 1000 + 64 * book) for book in range(len(sizes))),
            stop=(999,),
        ),
        codec=CodecSpec(
            kind=kind,  # type: ignore[arg-type]
            model=str(codec),
            sample_rate=rate,
            frame_samples=samples,
            codebook_sizes=sizes,
            left_frames=left,
            right_frames=right,
        ),
    )


def with_context(spec: Description, left: int, right: int) -> Description:
    codec = msgspec.structs.replace(spec.codec, left_frames=left, right_frames=right)
    return msgspec.structs.replace(spec, codec=codec)


_SHAPES: dict[str, tuple[int, int, tuple[int, ...]]] = {
    "dac": (24000, 320, (64, 64)),
    "mimi": (24000, 1920, (64,) * 4),
    "neucodec": (24000, 480, (64,)),
    "xcodec2": (16000, 320, (64,)),
}
