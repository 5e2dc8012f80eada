"""A thought crosses processes unchanged, and one whose parts do not fit is refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.errors import StageFailedError
from engine.wire import decode_value, encode_value
from worker.models.qwen_omni.thought import KEY, Thought, pack_thought, read_thought

WIDTH = 4


def make_thought(num_rows: int = 3) -> Thought:
    rng = np.random.default_rng(7)
    return Thought(
        token_ids=np.arange(num_rows, dtype=np.int64),
        embeddings=rng.standard_normal((num_rows, WIDTH), np.float32),
        hidden=rng.standard_normal((num_rows, WIDTH), np.float32),
        multimodal=np.array([number == 1 for number in range(num_rows)], np.bool_),
        is_prompt=True,
    )


@pytest.mark.parametrize("num_rows", [0, 1, 3])
def test_a_thought_crosses_processes_unchanged(num_rows: int) -> None:
    sent = make_thought(num_rows)
    frames = encode_value({"thought": {KEY: pack_thought(sent), "delta": "hm"}})
    got = read_thought(decode_value(frames, dict[str, Any]), WIDTH)
    assert got is not None
    assert (got.is_prompt, got.is_last, got.num_rows) == (True, False, num_rows)
    for name in ("token_ids", "embeddings", "hidden", "multimodal"):
        np.testing.assert_array_equal(getattr(got, name), getattr(sent, name))


def test_text_alone_is_no_thought() -> None:
    assert read_thought({"thought": {"delta": "hm"}}, WIDTH) is None
    assert read_thought({}, WIDTH) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("token_ids", np.zeros(3, np.int32)),
        ("embeddings", np.zeros((3, WIDTH + 1), np.float32)),
        ("hidden", np.zeros((2, WIDTH), np.float32)),
        ("hidden", [[0.0] * WIDTH] * 3),
        ("multimodal", np.zeros(2, np.bool_)),
    ],
)
def test_rows_that_do_not_fit_are_refused_by_name(name: str, value: Any) -> None:
    packed = pack_thought(make_thought()) | {name: value}
    with pytest.raises(StageFailedError, match=name):
        read_thought({"thought": {KEY: packed}}, WIDTH)


def test_a_missing_or_unknown_part_is_refused() -> None:
    packed = pack_thought(make_thought())
    with pytest.raises(StageFailedError, match="loudness"):
        read_thought({"thought": {KEY: packed | {"loudness": 1}}}, WIDTH)
    del packed["hidden"]
    with pytest.raises(StageFailedError, match="hidden"):
        read_thought({"thought": {KEY: packed}}, WIDTH)
