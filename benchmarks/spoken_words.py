"""Word error rate of what a conversation says, beside that of the speech route.

The language model writes each sentence token by token; the cascade speaks it while it is written,
and Whisper tiny.en writes down what was heard. It is counted against the transcript that came with
the sound. "Bare": the same sentences from ``POST /v1/audio/speech`` of the same server.
"""

from __future__ import annotations

import base64
import json
import urllib.request
from dataclasses import asdict
from typing import Any

import numpy as np

from benchmarks.figures import Figure, Report
from benchmarks.options import Options, run_async
from benchmarks.recogniser import Recogniser
from benchmarks.speech_client import Pcm, as_float, speak_all
from benchmarks.talking_server import talking_server
from benchmarks.wer import SEED, answer_as_float, hear_all
from benchmarks.wer_sentences import SENTENCES

_TIMEOUT_S = 60.0


def run(options: Options) -> Report:
    """One sentence at a time, each way."""
    sentences = SENTENCES[: options.pick(len(SENTENCES), 2)]
    texts = [spellings[0] for spellings in sentences]
    with talking_server(options) as talking:
        answers = [_answer(talking.port, text) for text in texts]
        read = run_async(speak_all(talking.port, texts, 1, keep=True, seed=SEED))
    num_other = sum(said != text for (said, _), text in zip(answers, texts, strict=True))
    recogniser = Recogniser()
    spoken = hear_all(recogniser, [as_float(pcm) for _, pcm in answers], sentences)
    bare = hear_all(recogniser, [answer_as_float(answer) for answer in read], sentences)
    figures = [
        Figure("WER, spoken answers", spoken.wer_percent, "%", bare.wer_percent, 1.0, "lower"),
        Figure("transcripts that are not what was written", num_other, "", None, 0, "lower"),
    ]
    hearings = {"spoken": spoken, "read": bare}
    details: dict[str, Any] = {
        name: [asdict(one) for one in hearing.sentences if one.num_errors]
        for name, hearing in hearings.items()
    }
    return Report("spoken_words", figures, details)


def _answer(port: int, text: str) -> tuple[str, Pcm]:
    """The transcript of an answer, and its sound."""
    body = {
        "model": "cascade",
        "modalities": ["text", "audio"],
        "audio": {"voice": "alloy", "format": "pcm16"},
        "messages": [{"role": "user", "content": f"say {text}"}],
        "seed": SEED,
    }
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions",
        json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:
        audio = json.load(response)["choices"][0]["message"]["audio"]
    return audio["transcript"], np.frombuffer(base64.b64decode(audio["data"]), np.int16)
