"""Speak a text, play it as it arrives, and keep it as a WAV file.

    pip install openai
    python examples/openai_stream.py "Good morning." morning.wav

OPENAI_BASE_URL chooses the server, OPENAI_API_KEY the key, if it wants one. The audio is played by
the sounddevice package, aplay or ffplay, whichever is there.
"""

import importlib
import os
import shutil
import subprocess
import sys
import wave
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from openai import OpenAI

sounddevice: Any = None
with suppress(ImportError, OSError):  # OSError: the package is there, and PortAudio is not
    sounddevice = importlib.import_module("sounddevice")

RATE = 24000  # What the server's model makes: one channel of 16-bit samples.
PLAYERS = {
    "aplay": f"-q -t raw -f S16_LE -c 1 -r {RATE}",
    "ffplay": f"-loglevel error -nodisp -autoexit -f s16le -ar {RATE} -",
}

client = OpenAI(
    base_url=os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1"),
    api_key=os.environ.get("OPENAI_API_KEY") or "none",
)


@contextmanager
def open_player() -> Iterator[Callable[[bytes], object]]:
    if sounddevice:
        with sounddevice.RawOutputStream(RATE, channels=1, dtype="int16") as stream:
            yield stream.write
    elif name := next(filter(shutil.which, PLAYERS), None):
        with subprocess.Popen([name, *PLAYERS[name].split()], stdin=subprocess.PIPE) as process:
            assert process.stdin
            yield process.stdin.write
    else:
        print("Nothing here plays audio (sounddevice, aplay, ffplay): only writing the file.")
        yield len


def main(text: str = "Hello! It is good to hear you.", path: str = "hello.wav") -> None:
    with (
        client.audio.speech.with_streaming_response.create(
            model="gpt-4o-mini-tts", voice="alloy", input=text, response_format="pcm"
        ) as speech,
        wave.open(path, "wb") as file,
        open_player() as play,
    ):
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        for audio in speech.iter_bytes(RATE // 5):  # 100 ms
            file.writeframes(audio)
            play(audio)


if __name__ == "__main__":
    main(*sys.argv[1:])
