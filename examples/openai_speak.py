"""Speak a text into an MP3 file.

    pip install openai
    python examples/openai_speak.py "Good morning." morning.mp3

OPENAI_BASE_URL chooses the server, OPENAI_API_KEY the key, if it wants one.
"""

import os
import sys

from openai import OpenAI

client = OpenAI(
    base_url=os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1"),
    api_key=os.environ.get("OPENAI_API_KEY") or "none",
)


def main(text: str = "Hello! It is good to hear you.", path: str = "hello.mp3") -> None:
    speech = client.audio.speech.create(
        model="gpt-4o-mini-tts", voice="alloy", input=text, response_format="mp3", speed=1.0
    )
    speech.write_to_file(path)
    print(f"{path}: {len(speech.content)} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
