"""From a recording to its text: windows, their order, and what they take."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import InvalidRequestError, RequestAbortedError
from server.audio.decoder import SAMPLE_RATE, Samples
from server.decoding import DecoderPool
from server.transcriber import WINDOW_SAMPLES, Passage, Transcription, WindowFeed
from tests.server.fake_transcriber import FakeTranscriber, Hearing, segment

THREE_HOURS_S = 3 * 3600


class Zeros:
    """A recording of silence that is made while it is read."""

    def __init__(self, num_samples: int) -> None:
        self._num_left = num_samples

    async def read(self, num_samples: int) -> Samples:
        taken = min(num_samples, self._num_left)
        self._num_left -= taken
        return np.zeros(taken, np.float32)


def silent_flac(path: Path, seconds: int) -> None:
    with av.open(str(path), "w") as container:
        options = {"frame_size": "16000"}
        stream = container.add_stream("flac", rate=8000, layout="mono", options=options)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 16000), np.int16), "s16", "mono")
        frame.rate = 8000
        for _ in range(seconds // 2):
            frame.pts = None
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


async def transcribe(engine: FakeTranscriber, job: Transcription) -> list[Passage]:
    return [passage async for passage in job.passages({}, engine.admit(), None)]


def test_three_hours_take_the_memory_of_some_windows(tmp_path: Path) -> None:
    silent_flac(tmp_path / "long.flac", THREE_HOURS_S)
    engine, pool = FakeTranscriber(Hearing(keeps=8000)), DecoderPool(1)

    async def run() -> float:
        reader = pool.open((tmp_path / "long.flac").open("rb"))
        job = Transcription(engine, "r", reader)
        assert await transcribe(engine, job) == []
        reader.discard()
        return job.duration_s

    tracemalloc.start()
    try:
        duration_s = asyncio.run(run())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        pool.close()

    assert duration_s == pytest.approx(THREE_HOURS_S, abs=1)
    assert len(engine.ended[0].windows) > 360
    # A window is 1.9 MB; it is held, joined with the next one's samples, and sent.
    assert peak < 20_000_000


@pytest.mark.parametrize("missing", [-1, 0, 1])
def test_the_last_window_is_known_for_the_last(missing: int) -> None:
    engine = FakeTranscriber(Hearing())
    num_samples = 2 * WINDOW_SAMPLES + missing

    asyncio.run(transcribe(engine, Transcription(engine, "r", Zeros(num_samples))))

    windows = engine.ended[0].windows
    assert [is_last for *_, is_last in windows] == [False] * (len(windows) - 1) + [True]
    assert sum(size for _, size, _ in windows) == num_samples


@settings(deadline=None, max_examples=40)
@given(
    st.integers(1, 4 * WINDOW_SAMPLES),
    st.lists(st.tuples(st.integers(1, WINDOW_SAMPLES), st.booleans()), max_size=30),
)
def test_windows_cover_every_sample_whatever_is_said_of_them(
    num_samples: int, answers: list[tuple[int, bool]]
) -> None:
    """``answers``: how much of a window was used, and whether its chunk is recognised at once."""
    feed, audio = WindowFeed(), np.arange(num_samples, dtype=np.float32)
    num_read = covered = 0
    waiting = 0
    replies = iter(answers)
    while not feed.has_sent_last:
        if (missing := feed.num_missing) > 0:
            feed.add(audio[num_read : num_read + missing], missing)
            num_read = min(num_samples, num_read + missing)
        if (window := feed.take_window()) is None:
            assert waiting, "nothing is waited for, and no window is due"
            feed.chunk_recognised()
            waiting -= 1
            continue
        first, samples, is_last = window
        assert first == covered
        np.testing.assert_array_equal(samples, audio[first : first + len(samples)])
        used, is_recognised = next(replies, (WINDOW_SAMPLES, True))
        covered = first + (len(samples) if is_last else min(used, len(samples)))
        feed.chunk_found(covered)
        waiting += 1
        feed.looked_at(covered)
        if is_recognised:
            feed.chunk_recognised()
            waiting -= 1
        assert num_read - covered <= 2 * WINDOW_SAMPLES

    assert covered == num_samples
    assert feed.duration_s == num_samples / SAMPLE_RATE


def test_no_window_is_sent_while_the_recogniser_is_far_behind() -> None:
    feed = WindowFeed()
    num_sent = 0
    for number in range(20):
        if (missing := feed.num_missing) > 0:
            feed.add(np.zeros(missing, np.float32), missing)
        if feed.take_window() is None:
            break
        num_sent += 1
        feed.chunk_found((number + 1) * WINDOW_SAMPLES)
        feed.looked_at((number + 1) * WINDOW_SAMPLES)

    assert num_sent == 5
    feed.chunk_recognised()
    assert feed.num_missing > 0


def test_a_reader_that_fails_on_the_way_ends_the_request() -> None:
    class Breaking(Zeros):
        async def read(self, num_samples: int) -> Samples:
            if self._num_left < 100:
                raise InvalidRequestError("it ends in the middle", param="file")
            return await super().read(num_samples)

    engine = FakeTranscriber(Hearing([[segment("One.", 0, 1)]]))

    async def run() -> None:
        job = Transcription(engine, "r", Breaking(WINDOW_SAMPLES + 50))
        # What is read first is a window and one sample.
        with pytest.raises(InvalidRequestError):
            await transcribe(engine, job)

    asyncio.run(run())

    assert engine.jobs == {}
    assert engine.admission.num_taken == 0


def test_one_who_stops_listening_ends_the_request() -> None:
    engine = FakeTranscriber(Hearing([[segment("One.", 0, 1)]] * 9))

    async def run() -> None:
        job = Transcription(engine, "r", Zeros(9 * WINDOW_SAMPLES))
        passages: AsyncIterator[Passage] = job.passages({}, engine.admit(), None)
        assert (await anext(passages)).segments[0]["text"] == " One."
        await passages.aclose()  # type: ignore[attr-defined]

    asyncio.run(run())

    assert engine.num_aborted == 1
    assert engine.jobs == {}


def test_an_aborted_request_is_an_error_and_no_short_text() -> None:
    engine = FakeTranscriber(Hearing(fail_at_window=1, error=RequestAbortedError("aborted")))

    with pytest.raises(RequestAbortedError):
        asyncio.run(transcribe(engine, Transcription(engine, "r", Zeros(2 * WINDOW_SAMPLES))))
