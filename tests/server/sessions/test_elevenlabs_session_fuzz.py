"""Whatever comes in, an ElevenLabs session answers with events, a close, and sensible orders."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.errors import StageFailedError
from server.sessions.effects import Abort, Effect
from server.sessions.elevenlabs_session import ElevenLabsSession
from server.sessions.speech_session import State
from server.sessions.spoken import WordTime
from tests.server.sessions.elevenlabs_driving import events, multi, single, spoken
from tests.server.sessions.test_speech_session_fuzz import Watcher, junk

NAMES = (
    *("text", "context_id", "flush", "close_context", "close_socket", "voice_settings"),
    *("generation_config", "try_trigger_generation", "xi_api_key", "contextId"),
)
GOOD: dict[str, st.SearchStrategy[Any]] = {
    "text": st.sampled_from(["", " ", "Hello. ", "When the rain had stopped, they", "x" * 60]),
    "context_id": st.sampled_from(["a", "b", "c", "d", "e", "f", "g", None]),
    "flush": st.booleans(),
    "close_context": st.sampled_from([True, False, False, None]),
    "close_socket": st.sampled_from([True, *[None] * 20]),
    "voice_settings": st.fixed_dictionaries({}, optional={"speed": st.floats(0.25, 4.0)}),
    "generation_config": st.just({"chunk_length_schedule": [50]}),
    "try_trigger_generation": st.booleans(),
}
good = st.fixed_dictionaries({}, optional=GOOD)
messages = st.one_of(good, good, good, st.dictionaries(st.sampled_from(NAMES), junk, max_size=3))
frames = st.one_of(*[messages.map(json.dumps)] * 4, st.text(max_size=20), st.binary(max_size=3))
news = st.tuples(
    st.sampled_from(["audio", "sentence", "end", "failure", "time_out"]), st.integers(0, 12)
)
sessions = st.builds(
    lambda make, auto, sync: make(auto_mode=auto, sync_alignment=sync),
    st.sampled_from([single, multi]),
    st.booleans(),
    st.booleans(),
)


def tell(session: ElevenLabsSession, kind: str, index: int) -> list[Effect]:
    match kind:
        case "end":
            return session.take_end(index)
        case "failure":
            return session.take_failure(index, StageFailedError("broke"))
        case "time_out":
            return session.time_out()
        case _:
            words = [WordTime(10, 20, index, index + 3)]
            ends = kind == "sentence"
            return session.take_audio(index, spoken(50, words, (0, 10), ends=ends), 1.0)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(sessions, st.lists(st.one_of(frames, frames, news)))
def test_random_frames_and_news_never_raise(
    session: ElevenLabsSession, steps: list[str | bytes | tuple[str, int]]
) -> None:
    watcher = Watcher()
    for number, step in enumerate(steps):
        if isinstance(step, tuple):
            effects = tell(session, *step)
        elif isinstance(step, bytes):
            effects = session.receive_binary()
            assert effects or session.state in (State.CLOSING, State.CLOSED)
        else:
            effects = session.receive_text(step, float(number))
        watcher.take(effects)
        assert watcher.is_closed == (session.state is State.CLOSED)
        for event in events(effects):
            assert ("audio" in event) != ("error" in event)


@settings(max_examples=100, deadline=None)
@given(sessions, st.lists(frames, min_size=100, max_size=100))
def test_ten_thousand_frames_are_each_understood_or_answered(
    session: ElevenLabsSession, given_frames: list[str | bytes]
) -> None:
    """What is no message is told; contexts never grow beyond their bound."""
    for frame in given_frames:
        is_over = session.state in (State.CLOSING, State.CLOSED)
        if isinstance(frame, bytes):
            effects = session.receive_binary()
        else:
            effects = session.receive_text(frame, 0.0)
        if not effects and not is_over:
            assert isinstance(json.loads(frame), dict)
        live = [index for index in range(200) if session.is_wanted(index)]
        assert len(live) <= 10
        for index in live:
            assert session.plan_of(index).prompt["voice"] == "anna"
    aborts = [effect for effect in session.end(1000, "") if isinstance(effect, Abort)]
    assert len(aborts) <= 10
