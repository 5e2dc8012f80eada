"""A voice agent with a tool: OpenAI's agents package, talking with this server.

    pip install openai-agents
    python examples/voice_agent.py

Ask it for the time; speak while it speaks, and it stops. Wear headphones, or it hears itself. The
server needs a language model (docs/cascade.md). VOXLOOM_URL chooses the server. arecord is the
microphone, aplay the loudspeaker.
"""

import asyncio
import os
import shutil
import sys
from asyncio.subprocess import PIPE, create_subprocess_exec
from datetime import datetime

from agents import function_tool
from agents.realtime import RealtimeAgent, RealtimeRunner, RealtimeSession

URL = os.environ.get("VOXLOOM_URL", "ws://127.0.0.1:8000") + "/v1/realtime?model=any"
KEY = os.environ.get("OPENAI_API_KEY", "none")
RAW = ("-q", "-t", "raw", "-f", "S16_LE", "-c", "1", "-r", "24000")


@function_tool
def time_of_day() -> str:
    """The time of day, here and now."""
    return f"{datetime.now():%H:%M}"


async def listen(session: RealtimeSession) -> None:
    microphone = await create_subprocess_exec("arecord", *RAW, stdout=PIPE)
    assert microphone.stdout
    while piece := await microphone.stdout.read(4800):
        await session.send_audio(piece)
    if await microphone.wait():
        raise OSError("arecord has failed: is there a microphone?")


async def main() -> None:
    if missing := [name for name in ("arecord", "aplay") if shutil.which(name) is None]:
        sys.exit(f"{' and '.join(missing)} cannot be found: apt install alsa-utils")
    agent = RealtimeAgent(name="clock", instructions="Be brief.", tools=[time_of_day])
    runner, player = RealtimeRunner(agent), None
    connecting = runner.run(model_config={"url": URL, "api_key": KEY})
    async with await connecting as session, asyncio.TaskGroup() as tasks:
        listening = tasks.create_task(listen(session))
        async for event in session:
            if event.type == "audio":
                player = player or await create_subprocess_exec("aplay", *RAW, stdin=PIPE)
                assert player.stdin
                player.stdin.write(event.audio.data)
            elif event.type == "audio_interrupted" and player:
                player.kill()
                player = None
            elif event.type == "history_updated":
                history = event.history
            elif event.type == "agent_end":
                print(history[-1].model_dump_json(include={"role", "content"}))
                if listening.done() and player:
                    await player.communicate(b"")
                    break
            elif event.type == "error":
                print(event.error)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except ExceptionGroup as failed:
        sys.exit(str(failed.exceptions[0]))
