"""A LiveKit agent without a room: a microphone, a loudspeaker, and what the session tells."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, TypeAlias, get_args

import aiohttp
import numpy as np
import numpy.typing as npt
from livekit import rtc
from livekit.agents import NOT_GIVEN, Agent, AgentSession
from livekit.agents.tts import TTS
from livekit.agents.voice.io import AudioInput, AudioOutput, AudioOutputCapabilities
from livekit.plugins.openai.realtime import RealtimeModel

from tests.clients.talking import PCM_RATE, Talk, pieces

LIMIT_S = 300.0
Told: TypeAlias = Literal["conversation_item_added", "function_tools_executed", "error"]
_TOLD: tuple[Told, ...] = get_args(Told)
_HARMLESS = [kind for kind in _TOLD if kind != "error"]


def frame_of(pcm: bytes) -> rtc.AudioFrame:
    """s16le at ``PCM_RATE``, mono."""
    return rtc.AudioFrame(pcm, PCM_RATE, 1, len(pcm) // 2)


class Microphone(AudioInput):
    """What is put into ``frames`` is said."""

    def __init__(self) -> None:
        super().__init__(label="microphone")
        self.frames: asyncio.Queue[rtc.AudioFrame] = asyncio.Queue()

    async def __anext__(self) -> rtc.AudioFrame:
        return await self.frames.get()


class Loudspeaker(AudioOutput):
    """Plays as fast as sound is heard, and says how far it came."""

    def __init__(self) -> None:
        super().__init__(
            label="loudspeaker",
            capabilities=AudioOutputCapabilities(pause=False),
            sample_rate=PCM_RATE,
        )
        self._loop = asyncio.get_running_loop()
        self._begun_at: float | None = None
        self._length_s = 0.0
        self._end: asyncio.TimerHandle | None = None
        self.samples: list[npt.NDArray[np.int16]] = []
        self.plays = asyncio.Event()

    async def capture_frame(self, frame: rtc.AudioFrame) -> None:
        await super().capture_frame(frame)
        if self._begun_at is None:
            self._begun_at, self._length_s = self._loop.time(), 0.0
            self.on_playback_started(created_at=self._loop.time())
        self._length_s += frame.duration
        self.samples.append(np.frombuffer(frame.data, np.int16))
        self.plays.set()

    def flush(self) -> None:
        super().flush()
        if self._begun_at is not None:
            self._end = self._loop.call_at(self._begun_at + self._length_s, self._finish, False)

    def clear_buffer(self) -> None:
        if self._begun_at is not None:
            self._finish(True)

    def _finish(self, interrupted: bool) -> None:
        assert self._begun_at is not None
        played_s = min(self._loop.time() - self._begun_at, self._length_s)
        if self._end is not None:
            self._end.cancel()
        self._begun_at, self._end = None, None
        self.plays.clear()
        self.on_playback_finished(playback_position=played_s, interrupted=interrupted)

    @property
    def sound(self) -> bytes:
        """All that was to be played, s16le."""
        return b"".join(part.tobytes() for part in self.samples)


class Call:
    """One session: what it has told, what the server has sent, and a voice for it."""

    def __init__(self, session: AgentSession[None], agent: Agent) -> None:
        assert isinstance(session.input.audio, Microphone)
        assert isinstance(session.output.audio, Loudspeaker)
        self.session = session
        self.microphone = session.input.audio
        self.loudspeaker = session.output.audio
        self.server_events: list[dict[str, Any]] = []
        self._told: asyncio.Queue[Any] = asyncio.Queue()
        self._news = asyncio.Event()
        for kind in _TOLD:
            session.on(kind, self._told.put_nowait)
        agent.realtime_llm_session.on("openai_server_event_received", self._note)

    def _note(self, event: dict[str, Any]) -> None:
        self.server_events.append(event)
        self._news.set()

    async def told(self, kind: Told) -> Any:
        """The next event of that type."""
        while True:
            event = await self._told.get()
            assert event.type in (kind, *_HARMLESS), event.error
            if event.type == kind:
                return event

    async def words_of(self, role: str) -> str:
        """What they say next, once it has been said."""
        while True:
            item = (await self.told("conversation_item_added")).item
            if item.role == role:
                return str(item.text_content)

    async def sent(self, kind: str) -> dict[str, Any]:
        """The server's first event of that type."""
        while True:
            self._news.clear()
            for event in self.server_events:
                if event["type"] == kind:
                    return event
            await self._news.wait()

    async def speak(self, pcm: bytes) -> None:
        async for piece in pieces(pcm):
            self.microphone.frames.put_nowait(frame_of(piece))

    async def ended(self, num_answers: int) -> list[str]:
        """How the answers have ended, once so many have."""
        while True:
            self._news.clear()
            done = [event for event in self.server_events if event["type"] == "response.done"]
            if len(done) >= num_answers:
                return [event["response"]["status"] for event in done]
            await self._news.wait()


def hold(
    talk: Talk,
    scenario: Callable[[Call], Awaitable[None]],
    *,
    instructions: str = "You show people the way.",
    tools: Sequence[Any] = (),
    voice: TTS[Any] | None = None,
    **options: Any,
) -> None:
    """Let an agent talk with ``scenario``; ``options`` are the model's.

    ``voice`` speaks what a model writes that does not speak itself.
    """

    async def run() -> None:
        async with aiohttp.ClientSession() as http:
            model = RealtimeModel(
                base_url=talk.base_url, api_key="any", http_session=http, **options
            )
            session: AgentSession[None] = AgentSession(
                llm=model, tts=voice or NOT_GIVEN, vad=None, aec_warmup_duration=None
            )
            session.input.audio, session.output.audio = Microphone(), Loudspeaker()
            agent = Agent(instructions=instructions, tools=list(tools))
            await session.start(agent, record=False)
            try:
                await scenario(Call(session, agent))
            finally:
                await session.aclose()
                if voice is not None:
                    await voice.aclose()

    asyncio.run(asyncio.wait_for(run(), LIMIT_S))
