"""From tokens to codes, and what is no speech."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worker.models.lm_codec.codes import CodeReader, FrameLayout, InvalidCodesError
from worker.models.lm_codec.description import load_description

ORPHEUS = load_description("orpheus-3b")
LAYOUT = FrameLayout.of(ORPHEUS, [int(slot.first) for slot in ORPHEUS.tokens.frame])
OUTETTS = FrameLayout.of(load_description("outetts-0.6b"), [5000, 6024])
CODES = st.lists(st.lists(st.integers(0, 4095), min_size=7, max_size=7), max_size=20)


@settings(deadline=None)
@given(CODES, st.integers(1, 9))
def test_what_was_said_is_read_back_however_it_is_cut(frames: list[list[int]], size: int) -> None:
    codes = np.array(frames, np.int32).reshape(len(frames), 7)
    tokens = LAYOUT.token_ids(codes)
    reader = CodeReader(LAYOUT)
    read = [reader.feed(tokens[i : i + size]) for i in range(0, len(tokens), size)]
    reader.finish()
    assert np.array_equal(np.concatenate([np.zeros((0, 7), np.int32), *read]), codes)
    assert reader.num_frames == len(frames)


def test_an_orpheus_frame_is_sorted_by_codebook_as_its_maker_decodes_it() -> None:
    """Tokens 0 and 1, 4 and 2, 3, 5, 6 of a frame are of SNAC's first, second and third book."""
    tokens = [128266 + slot * 4096 + 100 + slot for slot in range(7)]
    codes = CodeReader(LAYOUT).feed(tokens)
    assert codes.tolist() == [[100, 101, 104, 102, 103, 105, 106]]


@pytest.mark.parametrize(
    ("token", "why"),
    [
        (128265, "no code at all"),
        (128266, "a code of another place in the frame"),
        (132362 + 4096, "the first token behind the codebook"),
        (0, "text"),
    ],
)
def test_a_token_that_cannot_be_here_is_an_error(token: int, why: str) -> None:
    reader = CodeReader(LAYOUT)
    with pytest.raises(InvalidCodesError, match="frame 0, where a code of codebook 1"):
        reader.feed([128266 + 7, token])


def test_a_stream_that_ends_within_a_frame_is_an_error() -> None:
    reader = CodeReader(LAYOUT)
    reader.feed([128266, 132362])
    with pytest.raises(InvalidCodesError, match="2 of its 7 tokens"):
        reader.finish()


def test_other_tokens_are_skipped_where_the_model_says_them() -> None:
    reader = CodeReader(OUTETTS)
    assert reader.feed([1, 5003, 2, 6024 + 9, 3, 5000]).tolist() == [[3, 9]]
    assert reader.feed([6025]).tolist() == [[0, 1]]
    with pytest.raises(InvalidCodesError, match="codebook 0"):
        reader.feed([6024])
