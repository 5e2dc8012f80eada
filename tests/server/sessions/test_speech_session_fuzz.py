"""Whatever comes in, a session answers with events, a close, and orders that make sense."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.errors import StageFailedError
from server.sessions.effects import Abort, Close, Effect, EndText, SendEvent, StartUtterance
from server.sessions.speech_session import SpeechSession, State
from tests.server.sessions.driving import new_session, piece

KINDS = (
    *("session.config", "session.update", "session.close"),
    *("input.text", "input.done", "input.flush", "input.cancel"),
    *("audio.start", "", "input.texts"),
)
FIELDS = (
    *("text", "voice", "speed", "played_ms", "utterance_index", "split_granularity"),
    *("stream_audio", "word_timestamps", "audio_transport", "response_format", "seed"),
)
GOOD: dict[str, st.SearchStrategy[Any]] = {
    "text": st.text(max_size=30),
    "voice": st.sampled_from(["anna", None]),
    "speed": st.floats(0.25, 4.0),
    "played_ms": st.integers(0, 5000),
    "split_granularity": st.sampled_from(["none", "sentence", "clause"]),
    "word_timestamps": st.booleans(),
    "audio_transport": st.sampled_from(["binary", "json"]),
}
junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=5,
)
fields = st.dictionaries(st.sampled_from(FIELDS), junk, max_size=3) | st.fixed_dictionaries(
    {}, optional=GOOD
)
messages = st.builds(
    lambda kind, rest: json.dumps({"type": kind} | rest), st.sampled_from(KINDS) | junk, fields
)
frames = st.one_of(messages, messages, messages, st.text(max_size=20), st.binary(max_size=3))
engine_news = st.sampled_from(["audio", "opens", "ends", "end", "failure", "time_out"])
steps = st.lists(st.one_of(frames, frames, frames, engine_news.map(lambda n: ("engine", n))))


class Watcher:
    """Takes effects, and complains of those that make no sense after the ones before."""

    def __init__(self) -> None:
        self.open: set[int] = set()
        self.num_started = 0
        self.is_closed = False

    def take(self, effects: list[Effect]) -> None:
        for effect in effects:
            assert not self.is_closed, "something came after the close"
            match effect:
                case SendEvent(data):
                    json.dumps(data)
                case StartUtterance(index):
                    assert index not in self.open
                    self.open.add(index)
                case Abort(index) | EndText(index):
                    assert index < self.num_started or index in self.open
                case Close():
                    self.is_closed = True
            self.num_started = max([self.num_started, *(i + 1 for i in self.open)])


def tell(session: SpeechSession, news: str, index: int) -> list[Effect]:
    match news:
        case "end":
            return session.take_end(index)
        case "failure":
            return session.take_failure(index, StageFailedError("broke"))
        case "time_out":
            return session.time_out()
        case _:
            audio = piece(opens=news == "opens", ends=news == "ends")
            return session.take_audio(index, audio, 1.0)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps, st.booleans())
def test_random_frames_and_news_never_raise(given_steps: list[Any], is_configured: bool) -> None:
    session, watcher = new_session(), Watcher()
    if is_configured:
        session.receive_text('{"type": "session.config", "split_granularity": "clause"}', 0.0)
    for number, step in enumerate(given_steps):
        if isinstance(step, tuple):
            effects = tell(session, step[1], number % 3)
        elif isinstance(step, bytes):
            effects = session.receive_binary()
            assert effects or session.state is State.CLOSED
        else:
            effects = session.receive_text(step, float(number))
        watcher.take(effects)
        assert watcher.is_closed == (session.state is State.CLOSED)


@settings(max_examples=100, deadline=None)
@given(st.lists(frames, min_size=100, max_size=100))
def test_ten_thousand_frames_are_each_understood_or_answered(given_frames: list[Any]) -> None:
    session = new_session()
    session.receive_text('{"type": "session.config"}', 0.0)
    for frame in given_frames:
        if session.state is State.CLOSED:
            session = new_session()
            session.receive_text('{"type": "session.config"}', 0.0)
        if isinstance(frame, bytes):
            effects = session.receive_binary()
        else:
            effects = session.receive_text(frame, 0.0)
        if not effects:
            kind = json.loads(frame)["type"]
            assert kind in ("input.text", "input.flush", "session.config", "session.close")
