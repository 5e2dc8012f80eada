"""Speak a text into a file, with subtitles beside it.

    python examples/subtitles.py "Good morning. The coffee costs $3.50." morning.mp3 morning.vtt

A name that ends in .srt gives SubRip, any other WebVTT. OPENAI_BASE_URL chooses the server,
OPENAI_API_KEY the key, if it wants one.
"""

import base64
import json
import os
import sys
import urllib.request
from collections.abc import Iterator
from typing import Any

ADDRESS = os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1") + "/audio/speech"
KEY = os.environ.get("OPENAI_API_KEY") or "none"
MAX_CHARS = 42  # What a line of subtitles holds.


def lines(text: str, words: list[dict[str, Any]]) -> Iterator[tuple[int, int, str]]:
    """Start, end and text of each line: whole words, and no more than a sentence."""
    first = 0
    for last, word in enumerate(words):
        following = words[last + 1 : last + 2]
        start_char = words[first]["start_char"]
        is_full = bool(following) and following[0]["end_char"] - start_char > MAX_CHARS
        if is_full or not following or word["word"][-1] in ".!?":
            yield words[first]["start_ms"], word["end_ms"], text[start_char : word["end_char"]]
            first = last + 1


def clock(ms: int, mark: str) -> str:
    return f"{ms // 3600000:02}:{ms // 60000 % 60:02}:{ms // 1000 % 60:02}{mark}{ms % 1000:03}"


def main(text: str = "Hello! It is good to hear you.", *paths: str) -> None:
    audio_path, path = paths or ("hello.mp3", "hello.vtt")
    body = {"input": text, "voice": "alloy", "timestamp_granularities": ["word"]}
    headers = {"content-type": "application/json", "authorization": f"Bearer {KEY}"}
    request = urllib.request.Request(ADDRESS, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as response:
        answer = json.load(response)
    is_srt = path.endswith(".srt")
    mark = "," if is_srt else "."
    with open(audio_path, "wb") as audio, open(path, "w", encoding="utf-8") as subtitles:
        audio.write(base64.b64decode(answer["audio"]))
        subtitles.write("" if is_srt else "WEBVTT\n\n")
        for number, (start_ms, end_ms, line) in enumerate(lines(text, answer["words"]), 1):
            subtitles.write(f"{number}\n{clock(start_ms, mark)} --> {clock(end_ms, mark)}\n")
            subtitles.write(f"{' '.join(line.split())}\n\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
