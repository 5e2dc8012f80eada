"""``POST /v1/chat/completions`` against a scripted omni model: sound reaches it as sound."""

from __future__ import annotations

import base64
import io
import wave
from functools import partial
from typing import Any

import numpy as np
import pytest

from engine.pipeline import PipelineConfig, StageConfig
from server.app import create_app
from server.engine_life import ServedEngine
from tests.server.asgi_client import Answer, post_json, request
from tests.server.fake_engine import FakeEngine
from tests.server.talk.fake_cascade import FakeCascade, Plot, telling
from worker.models.qwen_omni.adapter import transform_prompt

PATH = "/v1/chat/completions"
NAMES = ("hear", "think", "talk", "code2wav")


class FakeOmni(FakeCascade):
    transform = staticmethod(partial(transform_prompt, voices=["anna"]))
    pipeline = PipelineConfig(
        name="omni",
        description="hears and talks",
        stages=tuple(StageConfig(name=name, model="x:y") for name in NAMES),
    )


def ask(parts: list[Any], plot: Plot | None = None, **fields: Any) -> tuple[Answer, FakeOmni]:
    omni = FakeOmni(plot or telling("Hi."))
    app = create_app(FakeEngine(), None, None, ServedEngine(omni))
    body = {"model": "m", "messages": [{"role": "user", "content": parts}]} | fields
    return post_json(app, PATH, body), omni


def wav_of(samples: Any, rate: int = 16_000) -> str:
    """A WAV file in base64."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(rate)
        writer.writeframes(np.asarray(samples, "<i2").tobytes())
    return base64.b64encode(file.getvalue()).decode()


def audio(data: str) -> dict[str, Any]:
    return {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}


def test_sound_reaches_the_model_as_it_is_and_where_it_is() -> None:
    samples = np.arange(-8000, 8000, dtype=np.int16)
    last = audio(wav_of([7] * 1600))
    answer, omni = ask([audio(wav_of(samples)), {"type": "text", "text": "What is it?"}, last])
    assert answer.status == 200
    prompt = omni.calls[0]["prompt"]
    kinds = [part["type"] for part in prompt["messages"][0]["content"]]
    assert kinds == ["audio", "text", "audio"]
    np.testing.assert_array_equal(prompt["clips"][0], samples)
    np.testing.assert_array_equal(prompt["clips"][1], [7] * 1600)
    assert (omni.calls[0]["first_stage_id"], omni.calls[0]["final_stage_id"]) == (0, 1)
    usage = answer.json()["usage"]["prompt_tokens_details"]
    assert usage["audio_tokens"] == 11


def test_text_alone_brings_no_clips() -> None:
    answer, omni = ask([{"type": "text", "text": "Hello"}])
    assert answer.status == 200
    assert "clips" not in omni.calls[0]["prompt"]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("!!!", "base64"),
        (base64.b64encode(b"RIFF....WAVE").decode(), "audio"),
        (wav_of(np.zeros(301 * 8000), rate=8000), "300 s"),
    ],
)
def test_sound_that_cannot_be_heard_is_refused_by_its_place(data: str, said: str) -> None:
    answer, omni = ask([audio(data)])
    assert (answer.status, omni.calls) == (400, [])
    assert answer.error["param"] == "messages[0].content[0].input_audio.data"
    assert said in answer.error["message"]


def test_a_request_holds_no_more_sound_than_may_be_kept() -> None:
    part = audio(wav_of(np.zeros(300 * 100), rate=100))
    assert ask([part] * 6)[0].status == 200
    answer, omni = ask([part] * 7)
    assert (answer.status, omni.calls) == (400, [])
    assert answer.error["param"] == "messages[0].content[6].input_audio.data"
    assert "1800 s" in answer.error["message"]


def test_realtime_says_what_it_would_need() -> None:
    omni = FakeOmni(telling("Hi."))
    app = create_app(FakeEngine(), None, None, ServedEngine(omni))
    answer = post_json(app, "/v1/realtime/client_secrets", {})
    assert (answer.status, answer.error["code"]) == (404, "no_realtime")
    # The page talks by realtime.
    assert request(app, "GET", "/page/talk").json() == {"talks": False, "voices": []}


def test_a_speed_at_which_the_model_does_not_speak_is_refused_by_name() -> None:
    text = [{"type": "text", "text": "Hi."}]
    modalities, audio = ["text", "audio"], {"voice": "anna", "format": "wav"}
    answer, omni = ask(text, modalities=modalities, audio=audio | {"speed": 1.25})
    assert (answer.status, answer.error["param"]) == (400, "audio.speed")
    assert answer.error["message"].startswith("'audio.speed' must be 1")
    assert not omni.calls
    plot = telling("Hi.", 2400)
    answer, omni = ask(text, plot, modalities=modalities, audio=audio | {"speed": 1.0})
    assert answer.status == 200
