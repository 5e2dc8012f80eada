"""Speak a text as server-sent events: audio in base64, then what it cost.

    pip install openai
    python examples/openai_sse.py "Good morning." morning.mp3

OPENAI_BASE_URL chooses the server, OPENAI_API_KEY the key, if it wants one.
"""

import base64
import os
import sys
from typing import Any, cast

from openai import OpenAI, Stream

client = OpenAI(
    base_url=os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1"),
    api_key=os.environ.get("OPENAI_API_KEY") or "none",
)


def main(text: str = "Hello! It is good to hear you.", path: str = "hello.mp3") -> None:
    body = {"model": "gpt-4o-mini-tts", "voice": "alloy", "input": text, "stream_format": "sse"}
    # audio.speech has no parser for these events; post() has. It raises APIError on an error event.
    events = client.post(
        "/audio/speech", body=body, cast_to=object, stream=True, stream_cls=Stream[object]
    )
    with events, open(path, "wb") as file:
        for event in cast("Stream[dict[str, Any]]", events):
            if event["type"] == "speech.audio.delta":
                file.write(base64.b64decode(event["audio"]))
            elif event["type"] == "speech.audio.done":
                print(f"{path}: {event['usage']}")


if __name__ == "__main__":
    main(*sys.argv[1:])
