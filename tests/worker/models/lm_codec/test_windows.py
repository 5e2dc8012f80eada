"""Windows: what is decoded together depends on the frames alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.worker.models.lm_codec.describing import with_context
from worker.models.lm_codec.description import load_description
from worker.models.lm_codec.windows import Window, WindowCutter

ORPHEUS = load_description("orpheus-3b")
LLASA = load_description("llasa-1b")


def cut(frames: np.ndarray, bursts: list[int], spec: object = ORPHEUS) -> list[Window]:
    cutter = WindowCutter(spec)  # type: ignore[arg-type]
    windows, start = [], 0
    for size in bursts:
        windows += cutter.feed(frames[start : start + size])
        start += size
    return windows + cutter.feed(frames[start:]) + cutter.finish()


def numbered(num_frames: int, num_slots: int = 7) -> np.ndarray:
    return np.arange(num_frames * num_slots, dtype=np.int32).reshape(num_frames, num_slots)


@settings(deadline=None)
@given(st.integers(1, 200), st.lists(st.integers(0, 9), max_size=40))
def test_windows_do_not_depend_on_how_frames_came(num_frames: int, bursts: list[int]) -> None:
    frames = numbered(num_frames)
    at_once, as_they_came = cut(frames, []), cut(frames, bursts)
    assert len(at_once) == len(as_they_came)
    for one, other in zip(at_once, as_they_came, strict=True):
        assert np.array_equal(one.codes, other.codes)
        assert (one.first_frame, one.num_left, one.num_core, one.is_last) == (
            other.first_frame,
            other.num_left,
            other.num_core,
            other.is_last,
        )


@settings(deadline=None)
@given(st.integers(1, 200), st.integers(0, 5), st.integers(0, 5))
def test_cores_are_all_frames_in_order_with_what_is_around_them(
    num_frames: int, left: int, right: int
) -> None:
    frames = numbered(num_frames)
    windows = cut(frames, [1] * num_frames, with_context(ORPHEUS, left, right))
    position = 0
    for window in windows:
        assert window.first_frame == position
        first = max(0, position - left)
        position += window.num_core
        last = min(num_frames, position + right)
        assert window.num_left == window.first_frame - first
        assert np.array_equal(window.codes, frames[first:last])
        assert window.is_last == (position == num_frames)
    assert position == num_frames


@pytest.mark.parametrize("spec", [ORPHEUS, LLASA])
def test_the_first_chunk_is_short_and_later_ones_grow_to_a_second(spec: object) -> None:
    frame_ms = spec.frame_ms  # type: ignore[attr-defined]
    num_slots = spec.num_slots  # type: ignore[attr-defined]
    windows = cut(numbered(round(8000 / frame_ms), num_slots), [], spec)
    lengths = [window.num_core * frame_ms for window in windows[:-1]]
    assert lengths[0] == pytest.approx(80, abs=frame_ms / 2)
    assert lengths == sorted(lengths)
    assert lengths[-1] == pytest.approx(1000, abs=frame_ms / 2)


def test_a_window_leaves_as_soon_as_its_surroundings_are_there() -> None:
    frames = numbered(10)
    cutter = WindowCutter(ORPHEUS)
    num_before_first = next(
        number for number in range(1, 11) if cutter.feed(frames[number - 1 : number])
    )
    assert num_before_first == 1 + ORPHEUS.codec.right_frames


def test_no_frame_makes_no_window() -> None:
    assert cut(numbered(0), []) == []
