"""Speak until somebody interrupts, and learn what was heard until then.

    pip install websockets
    python examples/barge_in.py "It was a dark and stormy night. The rain fell in torrents."

Press Enter to interrupt. A voice agent cancels when it hears its user, and puts the heard text, not
all that it wrote, into the conversation. VOXLOOM_URL chooses the server. aplay plays the sound.
"""

import asyncio
import json
import os
import subprocess
import sys
import time

from websockets.asyncio.client import ClientConnection, connect

SPEECH = os.environ.get("VOXLOOM_URL", "ws://127.0.0.1:8000") + "/v1/audio/speech/stream"
PLAYER = ("aplay", "-q", "-t", "raw", "-f", "S16_LE", "-c", "1", "-r", "24000")
CONFIG = {"response_format": "pcm", "stream_audio": True, "split_granularity": "sentence"}


async def say(socket: ClientConnection, kind: str, **fields: object) -> None:
    await socket.send(json.dumps({"type": kind} | fields))


async def main(text: str = "It was a dark and stormy night. The rain fell in torrents.") -> None:
    interrupted = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin, interrupted.set)
    player = await asyncio.create_subprocess_exec(*PLAYER, stdin=subprocess.PIPE)
    assert player.stdin
    async with connect(SPEECH) as socket:
        await say(socket, "session.config", voice="alloy", **CONFIG)
        await say(socket, "input.text", text=text)
        await say(socket, "input.done")

        async def cancel() -> None:
            await interrupted.wait()
            player.kill()
            await say(socket, "input.cancel", played_ms=(time.monotonic() - started_at) * 1000)

        started_at, num_bytes = time.monotonic(), 0
        canceller = asyncio.create_task(cancel())
        async for message in socket:
            if isinstance(message, bytes):
                started_at = started_at if num_bytes else time.monotonic()
                num_bytes += len(message)
                if not interrupted.is_set():
                    player.stdin.write(message)
            elif (event := json.loads(message))["type"] == "input.cancelled":
                print(f"Heard: {event['heard_text']}")
                break
            elif event["type"] == "session.done" and not interrupted.is_set():
                left_s = num_bytes / 48000 - (time.monotonic() - started_at)
                await asyncio.wait((canceller,), timeout=max(0.0, left_s))
                if not interrupted.is_set():
                    print("Heard all of it.")
                    break


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
