"""Windows of a recording, cut into chunks."""

from __future__ import annotations

from itertools import cycle, islice

from hypothesis import given, settings
from hypothesis import strategies as st

from worker.models.silero_vad.chunks import MAX_WINDOW_SAMPLES, Cut, Span, cut_window
from worker.models.silero_vad.detection import Detection

FRAME = 512
NUM_FRAMES = MAX_WINDOW_SAMPLES // FRAME
TIGHT = Detection(prefix_padding_ms=0, silence_duration_ms=320)
# 200 ms of padding behind the end of speech.
PADDING = 3200


def cut(probabilities: list[float], *, is_last: bool = False, joins_speech: bool = True) -> Cut:
    return cut_window(
        probabilities,
        len(probabilities) * FRAME,
        TIGHT,
        is_last=is_last,
        joins_speech=joins_speech,
    )


def frames(*stretches: tuple[float, int]) -> list[float]:
    return [probability for probability, count in stretches for _ in range(count)]


def test_silence_has_no_chunks_and_is_not_heard_again() -> None:
    found = cut(frames((0.0, NUM_FRAMES)))

    assert found.chunks == []
    assert MAX_WINDOW_SAMPLES - 4 * FRAME <= found.next_sample <= MAX_WINDOW_SAMPLES


def test_short_pauses_are_inside_a_chunk_and_long_ones_part_two() -> None:
    found = cut(frames((0.9, 50), (0.0, 30), (0.9, 50), (0.0, 100), (0.9, 50), (0.0, 50)))

    assert found.chunks == [
        Span(0, 130 * FRAME + PADDING),
        Span(230 * FRAME, 280 * FRAME + PADDING),
    ]


def test_each_pause_parts_two_chunks_where_that_is_asked_for() -> None:
    found = cut(frames((0.9, 50), (0.0, 30), (0.9, 50), (0.0, 50)), joins_speech=False)

    assert [span.first for span in found.chunks] == [0, 80 * FRAME]


def test_speech_at_the_end_of_a_window_is_left_whole_for_the_next() -> None:
    found = cut(frames((0.9, 300), (0.0, 30), (0.9, 100)))

    assert found.chunks == [Span(0, 300 * FRAME + PADDING)]
    assert found.next_sample == 330 * FRAME


def test_the_last_window_is_taken_to_its_end() -> None:
    found = cut(frames((0.9, 300), (0.0, 30), (0.9, 100)), is_last=True)

    assert found.chunks == [Span(0, 430 * FRAME)]
    assert found.next_sample == 430 * FRAME


def test_speech_without_a_pause_is_cut_where_it_is_least_probable() -> None:
    found = cut(frames((0.9, 800), (0.6, 1), (0.9, NUM_FRAMES - 801)))

    assert found.chunks == [Span(0, found.next_sample)]
    assert found.next_sample == 800 * FRAME + FRAME // 2


def test_speech_that_begins_late_moves_to_the_front_of_the_next_window() -> None:
    found = cut(frames((0.0, 600), (0.9, NUM_FRAMES - 600)))

    assert found == Cut([], 600 * FRAME)


@settings(deadline=None, max_examples=50)
@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.4, 0.9]), st.integers(1, 400)), min_size=1, max_size=12
    ),
    st.booleans(),
)
def test_chunks_are_in_order_within_the_window_and_every_window_goes_on(
    stretches: list[tuple[float, int]], joins_speech: bool
) -> None:
    probabilities = list(islice(cycle(frames(*stretches)), NUM_FRAMES))

    found = cut(probabilities, joins_speech=joins_speech)

    edges = [edge for span in found.chunks for edge in (span.first, span.last)]
    assert edges == sorted(edges)
    assert all(span.first < span.last for span in found.chunks)
    assert max([0, *edges]) <= found.next_sample <= MAX_WINDOW_SAMPLES
    assert found.next_sample > 0
