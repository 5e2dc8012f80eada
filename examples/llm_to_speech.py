"""Have a language model's answer spoken while it is being written.

    pip install openai websockets
    python examples/llm_to_speech.py "Why is the sky blue?" | aplay -t raw -f S16_LE -r 24000

VOXLOOM_URL chooses the speech server; LLM_BASE_URL, LLM_API_KEY and LLM_MODEL any language model
with OpenAI's API. Speech goes to standard output as it is made, the text to standard error.
"""

import asyncio
import json
import os
import sys

from openai import AsyncOpenAI
from websockets.asyncio.client import ClientConnection, connect

SPEECH = os.environ.get("VOXLOOM_URL", "ws://127.0.0.1:8000") + "/v1/audio/speech/stream"
CONFIG = {"response_format": "pcm", "stream_audio": True, "split_granularity": "clause"}
llm = AsyncOpenAI(
    base_url=os.environ.get("LLM_BASE_URL", "http://127.0.0.1:11434/v1"),
    api_key=os.environ.get("LLM_API_KEY") or "none",
)


async def write(socket: ClientConnection, question: str) -> None:
    tokens = await llm.chat.completions.create(
        model=os.environ.get("LLM_MODEL", "llama3.2"),
        messages=[{"role": "user", "content": question}],
        stream=True,
    )
    async for token in tokens:
        if token.choices and (text := token.choices[0].delta.content):
            print(text, end="", flush=True, file=sys.stderr)
            await socket.send(json.dumps({"type": "input.text", "text": text}))
    await socket.send(json.dumps({"type": "input.done"}))


async def play(socket: ClientConnection) -> None:
    async for message in socket:
        if isinstance(message, bytes):
            await asyncio.to_thread(sys.stdout.buffer.write, message)
            sys.stdout.buffer.flush()
        elif (event := json.loads(message))["type"] == "error":
            raise SystemExit(event["message"])
        elif event["type"] == "session.done":
            return


async def main(question: str = "Why is the sky blue?") -> None:
    async with connect(SPEECH) as socket:
        await socket.send(json.dumps({"type": "session.config", "voice": "alloy"} | CONFIG))
        await asyncio.gather(write(socket, question), play(socket))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
