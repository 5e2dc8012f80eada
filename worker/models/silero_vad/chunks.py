"""Where to cut a recording: chunks of speech that a recogniser takes at once.

A recording is looked at window by window. The next window begins where the last chunk of this one
ends, so nothing is remembered from one window to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from worker.models.silero_vad.detection import Detection, Edge, SpeechDetector
from worker.models.silero_vad.probabilities import FRAME_SAMPLES, SAMPLE_RATE

# Whisper hears 30 s at once; a window and so a chunk is never longer.
MAX_WINDOW_SAMPLES = 30 * SAMPLE_RATE // FRAME_SAMPLES * FRAME_SAMPLES
# Over a longer silence Whisper is apt to invent words.
_MAX_INNER_SILENCE = 2 * SAMPLE_RATE
# 64 ms, shorter than any syllable: a recogniser is apt to find words in less, too.
_BEGIN_FRAMES = 2
# Kept behind the end of speech, for consonants that fade out.
_END_PADDING = SAMPLE_RATE // 5
# Speech without a pause is cut where it is least probable, within this time of the window's end.
_FORCED_CUT_FRAMES = 10 * SAMPLE_RATE // FRAME_SAMPLES


@dataclass(frozen=True, slots=True)
class Span:
    """Samples of a window, the last one not included."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Cut:
    """The chunks of a window, and the sample at which the next window begins."""

    chunks: list[Span]
    next_sample: int


def cut_window(
    probabilities: Sequence[float],
    num_samples: int,
    detection: Detection,
    *,
    is_last: bool,
    joins_speech: bool,
) -> Cut:
    """Cut a window whose frames have these probabilities.

    ``joins_speech`` lets a chunk hold several stretches of speech with short pauses between them;
    without it each pause ends a chunk. Speech that reaches the end of a window which is not the
    last is left for the next window, unless it fills this one.
    """
    spans, is_open = _speech(probabilities, num_samples, detection)
    if is_last:
        return Cut(_join(spans) if joins_speech else spans, num_samples)
    if not is_open:
        # The prefix of speech that begins right behind the window is in it.
        keep_from = spans[-1].last if spans else 0
        next_sample = max(keep_from, num_samples - detection.prefix_samples - 2 * FRAME_SAMPLES)
        return Cut(_join(spans) if joins_speech else spans, next_sample)
    if len(spans) > 1:
        return Cut(_join(spans[:-1]) if joins_speech else spans[:-1], spans[-1].first)
    return _cut_within(spans[0], probabilities, num_samples)


def _speech(
    probabilities: Sequence[float], num_samples: int, detection: Detection
) -> tuple[list[Span], bool]:
    """The padded stretches of speech, and whether the last one goes on at the window's end."""
    detector = SpeechDetector(detection, begin_frames=_BEGIN_FRAMES)
    spans: list[Span] = []
    first: int | None = None
    for probability in probabilities:
        for change in detector.feed(probability):
            if change.edge is Edge.STARTED:
                after = spans[-1].last if spans else 0
                first = max(after, change.sample - detection.prefix_samples)
            elif change.edge is Edge.STOPPED and first is not None:
                spans.append(Span(first, min(change.sample + _END_PADDING, num_samples)))
                first = None
    if first is not None:
        spans.append(Span(first, num_samples))
    return spans, first is not None


def _join(spans: list[Span]) -> list[Span]:
    joined: list[Span] = []
    for span in spans:
        if joined and span.first - joined[-1].last <= _MAX_INNER_SILENCE:
            joined[-1] = Span(joined[-1].first, span.last)
        else:
            joined.append(span)
    return joined


def _cut_within(span: Span, probabilities: Sequence[float], num_samples: int) -> Cut:
    """Speech that has not ended: wait for its end if there is room for it, else cut it."""
    if span.first >= MAX_WINDOW_SAMPLES // 2:
        return Cut([], span.first)
    begin = max(1, len(probabilities) - _FORCED_CUT_FRAMES)
    quietest = min(range(begin, len(probabilities)), key=lambda i: probabilities[i])
    cut = min(quietest * FRAME_SAMPLES + FRAME_SAMPLES // 2, num_samples)
    return Cut([Span(span.first, cut)], cut)
