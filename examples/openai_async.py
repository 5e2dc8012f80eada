"""Speak several texts at once, each into an MP3 file of its own.

    pip install openai
    python examples/openai_async.py "One." "And two." "And now three."

OPENAI_BASE_URL chooses the server, OPENAI_API_KEY the key, if it wants one.
"""

import asyncio
import os
import sys

from openai import AsyncOpenAI

TEXTS = ("One.", "And two.", "And now three, all at once.")


async def speak(client: AsyncOpenAI, text: str, path: str) -> None:
    # A busy server answers 429 and says when to come back; the client waits and tries again.
    async with client.audio.speech.with_streaming_response.create(
        model="gpt-4o-mini-tts", voice="alloy", input=text
    ) as speech:
        await speech.stream_to_file(path)
    print(f"{path}: {text}")


async def main(*texts: str) -> None:
    async with AsyncOpenAI(
        base_url=os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1"),
        api_key=os.environ.get("OPENAI_API_KEY") or "none",
        max_retries=5,
    ) as client:
        paths = (f"speech-{number}.mp3" for number in range(1, len(texts) + 1))
        await asyncio.gather(*(speak(client, *item) for item in zip(texts, paths, strict=True)))


if __name__ == "__main__":
    asyncio.run(main(*(sys.argv[1:] or TEXTS)))
