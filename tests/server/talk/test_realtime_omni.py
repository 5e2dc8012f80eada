"""``WS /v1/realtime`` against a scripted omni model: turns reach it as sound."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from engine.errors import RequestAbortedError
from engine.outputs import OmniRequestOutput
from engine.pipeline import PipelineConfig, StageConfig
from server.app import create_app
from server.engine_life import ServedEngine
from tests.server.asgi_client import post_json, request
from tests.server.asgi_socket import AsgiSocket, connected
from tests.server.fake_engine import FakeEngine
from tests.server.fake_transcriber import FakeTranscriber
from tests.server.talk.fake_cascade import FakeCascade, Plot, call, telling, thought
from worker.models.qwen_omni.adapter import transform_prompt
from worker.models.whisper import adapter as whisper

RATE = 24_000
SECRETS = "/v1/realtime/client_secrets"


class LiveOmni(FakeCascade):
    """Hears a turn in the second piece of audio, and its end in the third."""

    transform = staticmethod(partial(transform_prompt, voices=["anna"]))
    pipeline = PipelineConfig(
        name="omni",
        description="hears and talks",
        input_type="audio",
        stages=tuple(
            StageConfig(name=name, model="x:y")
            for name in ("vad", "hear", "think", "talk", "code2wav")
        ),
    )

    def __init__(self, plot: Plot) -> None:
        super().__init__(plot)
        self.live: dict[str, Any] = {}
        self.heard: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self.pieces = 0

    async def add_request_async(self, request_id: str, prompt: Any, **arguments: Any) -> None:
        self.live = {"prompt": prompt, **arguments}

    async def add_streaming_update_async(
        self, request_id: str, prompt: dict[str, Any], *, resumable: bool = True
    ) -> None:
        self.pieces += 1
        if self.pieces == 2:
            self.heard.put_nowait({"kind": "started", "first_sample": prompt["first_sample"]})
        elif self.pieces == 3:
            self.heard.put_nowait({"kind": "stopped", "last_sample": prompt["first_sample"]})

    async def outputs(self, request_id: str) -> AsyncGenerator[OmniRequestOutput, None]:
        while (heard := await self.heard.get()) is not None:
            yield OmniRequestOutput(request_id, 0, payload={"heard": heard})
        raise RequestAbortedError("aborted")

    async def abort(self, request_ids: list[str]) -> None:
        if self.live:
            self.live["ticket"].release()
            self.heard.put_nowait(None)


def hold(
    omni: FakeCascade,
    scenario: Callable[[AsgiSocket], Awaitable[None]],
    *,
    transcriber: FakeTranscriber | None = None,
    path: str = "/v1/realtime",
) -> None:
    served = None if transcriber is None else transcriber.served()

    async def run() -> None:
        app = create_app(FakeEngine(), None, served, ServedEngine(omni))
        async with connected(app, path) as socket:
            await scenario(socket)

    asyncio.run(run())


def append(socket: AsgiSocket, level: int, ms: int = 500) -> None:
    pcm = np.full(RATE * ms // 1000, level, "<i2").tobytes()
    socket.say("input_audio_buffer.append", audio=base64.b64encode(pcm).decode())


def update(socket: AsgiSocket, **session: Any) -> None:
    socket.say("session.update", session={"type": "realtime"} | session)


def done(events: list[Any]) -> dict[str, Any]:
    response: dict[str, Any] = events[-1]["response"]
    return response


def test_a_turn_that_is_heard_is_answered_by_the_model_itself() -> None:
    omni = LiveOmni(telling("Good morning.", 4800))

    async def scenario(socket: AsgiSocket) -> None:
        for level in (0, 900, 0):
            append(socket, level)
        events = await socket.until("response.done")
        kinds = [event["type"] for event in events]
        assert "input_audio_buffer.speech_started" in kinds
        assert done(events)["status"] == "completed"
        assert done(events)["output"][0]["content"][0]["transcript"] == "Good morning."

    hold(omni, scenario)
    assert omni.live["prompt"]["mode"] == "live"
    assert (omni.live["final_stage_id"], omni.live["final_output_stage_ids"]) == (0, [0])
    (asked,) = omni.calls
    assert (asked["first_stage_id"], asked["final_stage_id"]) == (1, 4)
    assert asked["final_output_stage_ids"] == [2, 4]
    assert asked["prompt"]["messages"] == [{"role": "user", "content": [{"type": "audio"}]}]
    (clip,) = asked["prompt"]["clips"]
    assert (clip.dtype.str, len(clip)) == ("<i2", 8000)
    assert np.abs(clip[1000:7000] - 900).max() < 20
    assert omni.num_open == 0


def test_a_written_answer_in_text_brings_no_sound_and_asks_for_none() -> None:
    omni = LiveOmni(telling("Good morning.", 4800))

    async def scenario(socket: AsgiSocket) -> None:
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "?"}]}
        socket.say("conversation.item.create", item=item)
        socket.say("response.create", response={"output_modalities": ["text"]})
        events = await socket.until("response.done")
        assert done(events)["output"][0]["content"] == [
            {"type": "output_text", "text": "Good morning."}
        ]

    hold(omni, scenario)
    assert omni.calls[0]["final_stage_id"] == 2
    assert "clips" not in omni.calls[0]["prompt"]


def test_a_tools_call_and_its_result_go_both_ways() -> None:
    omni = LiveOmni(
        Plot([thought(calls=[call(0, "", "add", "{}")]), thought(finish_reason="tool_calls")])
    )
    tool = {"type": "function", "name": "add", "parameters": {"type": "object"}}

    async def scenario(socket: AsgiSocket) -> None:
        update(socket, tools=[tool], audio={"input": {"turn_detection": None}})
        append(socket, 900)
        socket.say("input_audio_buffer.commit")
        socket.say("response.create", response={"tool_choice": "required"})
        (called,) = done(await socket.until("response.done"))["output"]
        result = {"type": "function_call_output", "call_id": called["call_id"], "output": "4"}
        socket.say("conversation.item.create", item=result)
        socket.say("response.create")
        await socket.until("response.done")

    hold(omni, scenario)
    first, second = (asked["prompt"] for asked in omni.calls)
    assert first["tooling"]["tool_choice"] == "required"
    assert [message["role"] for message in second["messages"]] == ["user", "assistant", "tool"]
    assert len(second["clips"]) == 1


def test_a_turn_is_written_down_by_the_servers_recogniser() -> None:
    omni, transcriber = LiveOmni(telling("Hi.")), FakeTranscriber()

    async def scenario(socket: AsgiSocket) -> None:
        update(socket, audio={"input": {"transcription": {"model": "m", "language": "en"}}})
        for level in (0, 900, 0):
            append(socket, level)
        kind = "conversation.item.input_audio_transcription.completed"
        events = await socket.until(kind)
        assert events[-1]["transcript"] == "Hello there."

    hold(omni, scenario, transcriber=transcriber)
    assert transcriber.calls[0]["prompt"]["language"] == "en"
    (job,) = transcriber.ended
    assert job.windows == [(0, 8000, True)]


def test_without_a_recogniser_words_fail_and_the_conversation_goes_on() -> None:
    omni = LiveOmni(telling("Hi."))

    async def scenario(socket: AsgiSocket) -> None:
        detection = {"turn_detection": None, "transcription": {"model": "m"}}
        update(socket, audio={"input": detection})
        append(socket, 900)
        socket.say("input_audio_buffer.commit")
        kind = "conversation.item.input_audio_transcription.failed"
        failed = (await socket.until(kind))[-1]
        assert failed["error"]["code"] == "no_recogniser"
        socket.say("response.create")
        assert done(await socket.until("response.done"))["status"] == "completed"

    hold(omni, scenario)
    assert len(omni.calls[0]["prompt"]["clips"]) == 1


def test_a_session_that_only_listens_needs_a_recogniser() -> None:
    app = create_app(FakeEngine(), None, None, ServedEngine(LiveOmni(telling("Hi."))))
    answer = post_json(app, SECRETS, {"session": {"type": "transcription"}})
    assert (answer.status, answer.error["code"]) == (404, "no_recogniser")
    app = create_app(
        FakeEngine(), None, FakeTranscriber().served(), ServedEngine(LiveOmni(telling("Hi.")))
    )
    assert post_json(app, SECRETS, {"session": {"type": "transcription"}}).status == 200


@pytest.mark.parametrize("voice", ["alloy", "anna"])
def test_a_key_opens_a_session_in_a_voice_by_any_of_its_names(voice: str) -> None:
    app = create_app(FakeEngine(), None, None, ServedEngine(LiveOmni(telling("Hi."))))
    session = {"type": "realtime", "audio": {"output": {"voice": voice}}}
    answer = post_json(app, SECRETS, {"session": session})
    assert answer.status == 200
    assert answer.json()["session"]["audio"]["output"]["voice"] == voice
    # The page talks by realtime.
    assert request(app, "GET", "/page/talk").json()["talks"]


@pytest.mark.parametrize(
    ("audio", "param", "allowed"),
    [
        ({"output": {"speed": 1.25}}, "session.audio.output.speed", "must be 1"),
        (
            {"input": {"transcription": {"language": "de"}}},
            "session.audio.input.transcription.language",
            "must be one of en, got 'de'",
        ),
    ],
)
def test_what_no_session_could_do_gets_no_key_and_no_update(
    audio: dict[str, Any], param: str, allowed: str
) -> None:
    session = {"type": "realtime", "audio": audio}
    omni, writer = LiveOmni(telling("Hi.")), FakeTranscriber()
    writer.transform = partial(whisper.transform_prompt, languages=["en"])
    app = create_app(FakeEngine(), None, writer.served(), ServedEngine(omni))
    answer = post_json(app, SECRETS, {"session": session})
    assert (answer.status, answer.error["param"]) == (400, param)
    assert allowed in answer.error["message"]

    async def scenario(socket: AsgiSocket) -> None:
        update(socket, audio=audio)
        refused = (await socket.until("error"))[-1]["error"]
        assert (refused["param"], refused["message"]) == (param, answer.error["message"])

    hold(omni, scenario, transcriber=writer)
