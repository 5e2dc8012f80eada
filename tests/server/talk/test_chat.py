"""``POST /v1/chat/completions`` against a scripted cascade."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from engine.admission import AdmissionController
from engine.errors import InvalidRequestError, StageFailedError, UnavailableError
from server.app import create_app
from server.engine_life import ServedEngine
from server.settings import ServerSettings
from tests.server.asgi_client import Answer, Exchange, exchange, post_json, request
from tests.server.fake_engine import FakeEngine
from tests.server.slow_upload import Upload
from tests.server.talk.fake_cascade import FakeCascade, Plot, call, telling, thought

PATH = "/v1/chat/completions"
ASK = {"model": "m", "messages": [{"role": "user", "content": "Hello?"}]}
SPOKEN = ASK | {"modalities": ["text", "audio"], "audio": {"voice": "alloy", "format": "pcm16"}}


def ask(body: dict[str, Any], plot: Plot) -> tuple[Answer, FakeCascade]:
    cascade = FakeCascade(plot)
    app = create_app(FakeEngine(), None, None, ServedEngine(cascade))
    answer = post_json(app, PATH, body)
    assert cascade.num_open == 0
    return answer, cascade


def events(answer: Answer) -> list[dict[str, Any]]:
    """The events of a stream, which ends as the API says."""
    lines = [line for line in answer.body.decode().split("\n\n") if line]
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


def deltas(answer: Answer) -> list[dict[str, Any]]:
    return [event["choices"][0]["delta"] for event in events(answer) if event["choices"]]


def test_a_text_is_answered_with_a_text() -> None:
    answer, cascade = ask(ASK | {"temperature": 0.5, "seed": 3}, telling("Hi."))
    body = answer.json()
    (choice,) = body["choices"]
    assert choice["message"] == {"role": "assistant", "content": "Hi.", "refusal": None}
    assert (choice["finish_reason"], body["object"]) == ("stop", "chat.completion")
    assert body["usage"]["total_tokens"] == 10
    (asked,) = cascade.calls
    assert asked["prompt"]["sampling"] == {"temperature": 0.5, "seed": 3}
    assert (asked["first_stage_id"], asked["final_stage_id"]) == (2, 2)


def test_a_seed_is_the_voices_too_and_each_choice_has_its_own() -> None:
    _, cascade = ask(SPOKEN | {"seed": 7, "n": 2}, telling("Hi.", 480))
    seeds = [{stage.seed for stage in asked["sampling"]} for asked in cascade.calls]
    assert seeds == [{7}, {8}]


@pytest.mark.parametrize("seed", [None, "x", 1.5, True, -1, 2**63])
def test_a_seed_that_only_a_language_model_could_take_is_left_to_it(seed: Any) -> None:
    _, cascade = ask(SPOKEN | {"seed": seed}, telling("Hi.", 480))
    assert cascade.calls[0]["sampling"] is None


def test_a_spoken_answer_has_its_transcript_and_an_expiry() -> None:
    answer, cascade = ask(SPOKEN, telling("Hi.", 4800))
    message = answer.json()["choices"][0]["message"]
    assert message["content"] is None
    assert message["audio"]["transcript"] == "Hi."
    assert len(base64.b64decode(message["audio"]["data"])) == 9600
    assert message["audio"]["expires_at"] > 1_700_000_000
    usage = answer.json()["usage"]
    assert usage["completion_tokens_details"]["audio_tokens"] == 4
    assert cascade.calls[0]["prompt"]["voice"] == "anna"


def test_a_spoken_answer_has_the_speed_that_is_asked_for() -> None:
    audio = {"voice": "alloy", "format": "wav"}
    _, cascade = ask(ASK | SPOKEN | {"audio": audio | {"speed": 1.5}}, telling("Hi.", 2400))
    assert cascade.calls[-1]["prompt"]["speed"] == 1.5
    _, cascade = ask(ASK | SPOKEN | {"audio": audio}, telling("Hi.", 2400))
    assert "speed" not in cascade.calls[-1]["prompt"]


def test_a_wav_has_one_header_with_its_true_size() -> None:
    wav = SPOKEN | {"audio": {"voice": "alloy", "format": "wav"}}
    plot = Plot([thought("Hi."), 4800, 2400, thought(finish_reason="stop")])
    answer, _ = ask(wav, plot)
    data = base64.b64decode(answer.json()["choices"][0]["message"]["audio"]["data"])
    assert data.count(b"RIFF") == 1
    assert int.from_bytes(data[40:44], "little") == 2 * 7200 == len(data) - 44


def test_a_stream_says_each_thing_once_and_cuts_no_sample() -> None:
    plot = Plot([thought("Hel"), 1001, thought("lo."), 2002, thought(finish_reason="stop")])
    answer, _ = ask(SPOKEN | {"stream": True}, plot)
    parts = [delta["audio"] for delta in deltas(answer) if "audio" in delta]
    assert list(parts[0]) == ["id", "transcript"]
    assert sum("id" in part for part in parts) == 1
    assert sum("expires_at" in part for part in parts) == 1
    assert "".join(part.get("transcript", "") for part in parts) == "Hello."
    data = [part["data"] for part in parts if "data" in part]
    assert all(len(piece) % 8 == 0 for piece in data[:-1])
    assert len(base64.b64decode("".join(data))) == 2 * 3003
    last = events(answer)[-2:]
    assert "finish_reason" not in last[0]["choices"][0]
    assert last[1]["choices"][0]["finish_reason"] == "stop"


def test_usage_comes_in_a_stream_only_if_asked_for() -> None:
    answer, _ = ask(ASK | {"stream": True}, telling("Hi."))
    assert all(event["choices"] for event in events(answer))
    wanted = ASK | {"stream": True, "stream_options": {"include_usage": True}}
    answer, _ = ask(wanted, telling("Hi."))
    assert events(answer)[-1]["choices"] == []
    assert events(answer)[-1]["usage"]["prompt_tokens"] == 7


def test_tool_calls_are_told_whole_and_piece_by_piece() -> None:
    plot = Plot(
        [
            thought(calls=[call(0, "c1", "add", "")]),
            thought(calls=[call(0, arguments='{"a"'), call(0, arguments=":1}")]),
            thought(finish_reason="tool_calls"),
        ]
    )
    answer, _ = ask(ASK, plot)
    choice = answer.json()["choices"][0]
    function = {"name": "add", "arguments": '{"a":1}'}
    assert choice["message"]["tool_calls"] == [
        {"id": "c1", "type": "function", "function": function}
    ]
    assert (choice["message"]["content"], choice["finish_reason"]) == (None, "tool_calls")
    answer, _ = ask(ASK | {"stream": True}, plot)
    calls = [delta["tool_calls"][0] for delta in deltas(answer) if "tool_calls" in delta]
    assert calls[0] == {
        "index": 0,
        "id": "c1",
        "type": "function",
        "function": {"name": "add", "arguments": ""},
    }
    assert "".join(part["function"]["arguments"] for part in calls) == '{"a":1}'


def test_too_many_choices_for_the_engine_leave_no_ticket_behind() -> None:
    cascade = FakeCascade(telling("Hi."))
    cascade.admission = AdmissionController(2, 0)
    app = create_app(FakeEngine(), None, None, ServedEngine(cascade))
    assert post_json(app, PATH, ASK | {"n": 3}).status == 429
    assert post_json(app, PATH, ASK | {"n": 2}).status == 200


def large_question() -> bytes:
    """A question of more than one part of a body."""
    said = [{"role": "user", "content": "Hello? " * 20_000}]
    return json.dumps(ASK | {"messages": said}).encode()


def test_a_chat_holds_its_place_from_its_first_byte_on() -> None:
    async def scenario() -> None:
        cascade = FakeCascade(telling("Hi."))
        cascade.admission = AdmissionController(1, 0)
        app = create_app(FakeEngine(), None, None, ServedEngine(cascade))
        body, upload = large_question(), Upload()
        slow = asyncio.create_task(exchange(app, "POST", PATH, body, on_start=upload.hold))
        await upload.has_begun.wait()
        for _ in range(3):
            assert (await exchange(app, "POST", PATH, body)).status == 429
        upload.goes_on.set()
        assert (await slow).status == 200
        assert cascade.admission.num_taken == 0

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("timeout_s", "way", "body"),
    [(0.01, Upload().hold, large_question()), (0.5, Upload.trickle, json.dumps(ASK).encode())],
)
def test_a_chat_that_stands_still_or_trickles_loses_its_place(
    timeout_s: float, way: Callable[[Exchange], None], body: bytes
) -> None:
    cascade = FakeCascade(telling("Hi."))
    settings = ServerSettings(upload_timeout_s=timeout_s)
    app = create_app(FakeEngine(), settings, None, ServedEngine(cascade))
    answer = request(app, "POST", PATH, body=body, on_start=way)
    assert (answer.status, answer.error["param"]) == (408, "messages")
    assert cascade.admission.num_taken == 0


def test_a_chat_that_is_refused_leaves_no_ticket_behind() -> None:
    cascade = FakeCascade(telling("Hi."))
    cascade.admission = AdmissionController(1, 0)
    app = create_app(FakeEngine(), None, None, ServedEngine(cascade))
    for body in (b"{", json.dumps(ASK | {"n": 9}).encode()):
        assert request(app, "POST", PATH, body=body).status == 400
    assert post_json(app, PATH, ASK).status == 200
    assert cascade.admission.num_taken == 0


def test_a_spoken_stream_that_only_calls_names_no_audio() -> None:
    plot = Plot([thought(calls=[call(0, "c1", "add", "{}")]), thought(finish_reason="tool_calls")])
    answer, _ = ask(SPOKEN | {"stream": True}, plot)
    assert not [delta for delta in deltas(answer) if "audio" in delta]


def test_several_choices_are_answers_of_their_own() -> None:
    answer, cascade = ask(ASK | {"n": 3}, telling("Hi."))
    assert [choice["index"] for choice in answer.json()["choices"]] == [0, 1, 2]
    assert answer.json()["usage"]["completion_tokens"] == 9
    assert answer.json()["usage"]["prompt_tokens"] == 7
    assert len({asked["request_id"] for asked in cascade.calls}) == 3
    answer, _ = ask(ASK | {"n": 2, "stream": True}, telling("Hi."))
    assert {event["choices"][0]["index"] for event in events(answer)} == {0, 1}


def test_an_answer_can_be_referred_to_by_its_id() -> None:
    cascade = FakeCascade(telling("Good day.", 2400))
    app = create_app(FakeEngine(), None, None, ServedEngine(cascade))
    audio = post_json(app, PATH, SPOKEN).json()["choices"][0]["message"]["audio"]
    again = [
        *ASK["messages"],
        {"role": "assistant", "audio": {"id": audio["id"]}},
        {"role": "user", "content": "And?"},
    ]
    assert post_json(app, PATH, ASK | {"messages": again}).status == 200
    told = cascade.calls[-1]["prompt"]["messages"][1]
    assert told == {"role": "assistant", "content": "Good day."}


BAD: list[tuple[dict[str, Any], str]] = [
    ({"messages": []}, "messages"),
    ({"messages": "Hi"}, "messages"),
    ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "user"}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": [{"type": "video"}]}]}, "messages[0].content[0]"),
    ({"messages": [{"role": "assistant", "audio": {"id": "audio_x"}}]}, "messages[0].audio.id"),
    ({"messages": [{"role": "assistant", "audio": {"id": 5}}]}, "messages[0].audio.id"),
    ({"messages": [{"role": "assistant", "audio": {}}]}, "messages[0].audio.id"),
    ({"messages": [{"role": "assistant", "audio": "audio_x"}]}, "messages[0].audio.id"),
    ({"messages": [{"role": "user", "content": "\ud800"}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": "a", "x": [2**64]}]}, "messages[0].x[0]"),
    (
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"x": 2**80}}}]},
        "tools[0].function.parameters.x",
    ),
    ({"top_k": 2**64}, "top_k"),
    ({"x\ud800": 1}, "x\\ud800"),
    ({"modalities": ["audio", "text"], "audio": None}, "audio"),
    ({"modalities": ["smell"]}, "modalities"),
    ({"audio": {"voice": "alloy", "format": "midi"}}, "audio"),
    ({"n": 0}, "n"),
    ({"n": 9}, "n"),
    ({"stream": "yes"}, "stream"),
    ({"model": 5}, "model"),
    (SPOKEN | {"audio": {"voice": "zoe", "format": "wav"}}, "audio.voice"),
    (SPOKEN | {"audio": {"voice": "alloy", "format": "wav", "speed": 4.5}}, "audio"),
    (SPOKEN | {"audio": {"voice": "alloy", "format": "wav", "speed": "1"}}, "audio"),
    (SPOKEN | {"stream": True, "audio": {"voice": "alloy", "format": "wav"}}, "audio.format"),
]


@pytest.mark.parametrize(("fields", "param"), BAD)
def test_what_is_wrong_is_named(fields: dict[str, Any], param: str) -> None:
    answer, cascade = ask(ASK | fields, telling("Hi."))
    assert (answer.status, answer.error["param"]) == (400, param)
    assert cascade.calls == []


BAD_AUDIO = [
    ({"type": "image_url", "image_url": {"url": "http://169.254.169.254/"}}, "url"),
    ({"type": "input_audio"}, "data"),
    ({"type": "input_audio", "input_audio": {"data": "%%"}}, "data"),
    ({"type": "input_audio", "input_audio": {"data": ""}}, "data"),
    ({"type": "audio_url", "audio_url": {"url": "http://127.0.0.1/a.wav"}}, "url"),
    ({"type": "audio_url", "audio_url": {"url": "https://example.com/a.wav"}}, "url"),
    ({"type": "audio_url", "audio_url": {"url": "file:///etc/passwd"}}, "url"),
    ({"type": "audio_url", "audio_url": {"url": "http://0x7f000001/"}}, "url"),
    ({"type": "audio_url", "audio_url": {"url": "http://[::1]/a.wav"}}, "url"),
    ({"type": "audio_url", "audio_url": {"url": "data:audio/wav;base64,%%"}}, "url"),
]


@pytest.mark.parametrize(("part", "field"), BAD_AUDIO)
def test_audio_that_is_none_is_refused_and_nothing_is_fetched(
    part: dict[str, Any], field: str
) -> None:
    body = ASK | {"messages": [{"role": "user", "content": [part]}]}
    answer, _ = ask(body, telling("Hi."))
    assert answer.status == 400
    assert answer.error["param"] == f"messages[0].content[0].{part['type']}.{field}"


def test_a_failure_before_the_first_word_has_its_own_status() -> None:
    for error, status in (
        (UnavailableError("gone"), 503),
        (InvalidRequestError("no", param="messages"), 400),
    ):
        for stream in (False, True):
            answer, _ = ask(ASK | {"stream": stream}, Plot([error]))
            assert (answer.status, answer.error["message"]) == (status, error.message)


def test_a_failure_in_the_middle_ends_the_stream_visibly() -> None:
    answer, _ = ask(ASK | {"stream": True}, Plot([thought("Hel"), StageFailedError("broke")]))
    assert answer.status == 200
    assert b"[DONE]" not in answer.body
    last = [line for line in answer.body.decode().split("\n\n") if line][-1]
    assert json.loads(last.removeprefix("data: "))["error"]["message"] == "broke"


def test_one_choice_that_fails_fails_the_request() -> None:
    answer, _ = ask(ASK | {"n": 2}, Plot([thought("Hel"), StageFailedError("broke")]))
    assert answer.status == 500


def test_a_server_without_a_language_model_says_how_to_get_one() -> None:
    answer = post_json(create_app(FakeEngine()), PATH, ASK)
    assert (answer.status, answer.error["code"]) == (404, "no_cascade")
    assert "VOXLOOM_THINKER_URL" in answer.error["message"]
