"""What a live stream comes to in the engine: its options, and the stages that it runs through."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from engine.input_processor import InputProcessor
from engine.outputs import OmniInteractionPrompt
from engine.pipeline import load_pipeline
from server.sessions.realtime.config import TurnRules
from server.sessions.realtime.effects import Hints, ListeningOptions
from server.talk.live_ear import LiveEar
from tests.server.fake_engine import FakeEngine

RULES = TurnRules(0.5, 300, 500, None, create_response=True, interrupt_response=True)


class Noting(FakeEngine):
    """Takes down what a stream is opened and changed with."""

    def __init__(self) -> None:
        super().__init__()
        self.prompts: list[dict[str, Any]] = []
        self.stages: list[tuple[int, list[int]]] = []

    async def add_request_async(self, request_id: str, prompt: Any, **arguments: Any) -> None:
        self.prompts.append(prompt)
        self.stages.append((arguments["final_stage_id"], arguments["final_output_stage_ids"]))
        arguments["ticket"].release()

    async def submit_interaction_async(
        self, request_id: str, interaction: OmniInteractionPrompt
    ) -> None:
        self.prompts.append(interaction.arguments)


def test_a_hint_that_is_taken_back_is_forgotten() -> None:
    engine = Noting()
    ear = LiveEar(engine, 1, "r", 0)
    given = Hints("en", ["en"], "About tea.", ["Darjeeling"])

    async def change() -> None:
        await ear.open(ListeningOptions(RULES, given))
        await ear.change(ListeningOptions(RULES, Hints()))

    asyncio.run(change())
    opened, changed = engine.prompts
    processor = InputProcessor(load_pipeline("cascade"))
    _, before = processor.process_voice_update({"request_id": "r"}, opened)
    _, after = processor.process_voice_update(opened | {"request_id": "r"}, changed)
    wanted = ("language", "languages", "context", "keywords")
    assert [before["recognition"][key] for key in wanted] == [
        "en",
        ["en"],
        "About tea.",
        ["Darjeeling"],
    ]
    assert [after["recognition"][key] for key in wanted] == [None, [], "", []]


@pytest.mark.parametrize("name", ["qwen2_5-omni", "qwen3-omni"])
def test_without_a_recogniser_only_turns_are_found(name: str) -> None:
    engine = Noting()
    ear = LiveEar(engine, None, "r", 0)
    unknown = Hints("xx", prompt="About tea.")

    async def change() -> None:
        await ear.open(ListeningOptions(RULES, unknown))
        await ear.change(ListeningOptions(RULES, unknown))

    asyncio.run(change())
    assert engine.stages == [(0, [0])]
    processor = InputProcessor(load_pipeline(name))
    for prompt in engine.prompts:
        _, told = processor.process_voice_update({"request_id": "r"}, prompt)
        assert (told["mode"], told["guesses"]) == ("live", False)
        assert told["detection"]["silence_duration_ms"] == 500


def test_with_one_its_words_come_too() -> None:
    engine = Noting()
    asyncio.run(LiveEar(engine, 1, "r", 0).open(ListeningOptions(RULES, Hints())))
    assert engine.stages == [(1, [0, 1])]
