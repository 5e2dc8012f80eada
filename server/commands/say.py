"""``voxloom say``: speak a text to a file, to standard output or to the loudspeaker, no server."""

from __future__ import annotations

import argparse
import asyncio
import logging.config
import sys
import time
import uuid
from contextlib import aclosing
from pathlib import Path

import msgspec

from engine.async_omni_engine import AsyncOmniEngine
from engine.errors import ConfigError, InvalidRequestError
from engine.pipeline import PipelineConfig, load_pipeline
from server.audio.formats import AudioFormat
from server.commands.sinks import Sink, open_sink
from server.log import log_config
from server.schemas.speech import MAX_SPEED, MIN_SPEED

_START_TIMEOUT_S = 120.0
_PROGRESS_INTERVAL_S = 0.2


def run(arguments: argparse.Namespace) -> int:
    """Speak. Raises ``ConfigError``, ``VoxloomError`` or ``OSError``."""
    if arguments.output is None and not arguments.play:
        raise ConfigError("say where the speech should go: -o FILE, -o - or --play")
    if not MIN_SPEED <= arguments.speed <= MAX_SPEED:
        raise ConfigError(f"--speed must be from {MIN_SPEED} to {MAX_SPEED}")
    logging.config.dictConfig(log_config("error"))
    text = read_text(arguments)
    pipeline = load_pipeline(arguments.pipeline)
    fmt = choose_format(arguments.format, arguments.output)
    with open_sink(arguments.output, fmt, pipeline.sample_rate, play=arguments.play) as sink:
        asyncio.run(_speak(pipeline, text, arguments, sink))
        sink.commit()
    return 0


def read_text(arguments: argparse.Namespace) -> str:
    """The text: the argument, the file, or standard input."""
    if arguments.text is not None and arguments.file is not None:
        raise ConfigError("give a text or --file, not both")
    if arguments.text is not None:
        return str(arguments.text)
    if arguments.file not in (None, "-"):
        return Path(arguments.file).read_text(encoding="utf-8")
    if arguments.file is None and sys.stdin.isatty():
        raise ConfigError("give a text, --file FILE, or pipe one in")
    return sys.stdin.read()


def choose_format(named: str | None, output: str | None) -> AudioFormat:
    """The named format, else that of the file's extension; wav where nothing says otherwise."""
    if named is not None:
        return AudioFormat(named)
    if output is None or output == "-" or not Path(output).suffix:
        return AudioFormat.WAV
    extension = Path(output).suffix[1:].lower()
    extension = {"ogg": "opus"}.get(extension, extension)
    if extension not in list(AudioFormat):
        known = ", ".join(AudioFormat)
        raise ConfigError(f"cannot tell the format from {output!r}; give --format, one of {known}")
    return AudioFormat(extension)


async def _speak(
    pipeline: PipelineConfig, text: str, arguments: argparse.Namespace, sink: Sink
) -> None:
    engine = AsyncOmniEngine(pipeline)
    prompt = _prompt(engine, text, arguments)
    engine.start()
    try:
        await engine.wait_ready(_START_TIMEOUT_S)
        await _write_speech(engine, prompt, arguments.seed, sink)
    finally:
        await engine.shutdown(drain_timeout_s=0.0)


def _prompt(engine: AsyncOmniEngine, text: str, arguments: argparse.Namespace) -> dict[str, object]:
    if not text.strip():
        raise InvalidRequestError("the text is empty")
    voice = engine.voices[0].id if engine.voices else None
    if arguments.voice is not None:
        voice = engine.find_voice(arguments.voice).id
    return {
        "text": text,
        "voice": voice,
        "speed": arguments.speed,
        "language": None,
        "instructions": None,
    }


async def _write_speech(
    engine: AsyncOmniEngine, prompt: dict[str, object], seed: int | None, sink: Sink
) -> None:
    sampling = [
        msgspec.structs.replace(stage.default_sampling, seed=seed)
        for stage in engine.pipeline.stages
    ]
    outputs = engine.generate(
        f"say-{uuid.uuid4().hex}",
        prompt,
        sampling_params_list=None if seed is None else sampling,
    )
    progress = Progress(engine.pipeline.sample_rate)
    async with aclosing(outputs):
        async for output in outputs:
            for warning in (*output.warnings, *output.payload.get("warnings", ())):
                print(f"voxloom: warning: {warning}", file=sys.stderr)
            if output.audio is not None:
                await asyncio.to_thread(sink.write, output.audio)
                progress.add(output.num_samples)
    progress.finish()
    if not progress.num_samples:
        raise InvalidRequestError("the text made no audio")


class Progress:
    """A line on the terminal that says how much has been spoken. Silent when piped."""

    def __init__(self, sample_rate: int) -> None:
        self._sample_rate = sample_rate
        self._is_shown = sys.stderr.isatty()
        self._started_at = time.monotonic()
        self._shown_at = 0.0
        self.num_samples = 0

    def add(self, num_samples: int) -> None:
        self.num_samples += num_samples
        now = time.monotonic()
        if self._is_shown and now - self._shown_at > _PROGRESS_INTERVAL_S:
            self._shown_at = now
            self._show()

    def finish(self) -> None:
        if self._is_shown:
            self._show()
            print(file=sys.stderr)

    def _show(self) -> None:
        audio_s = self.num_samples / self._sample_rate
        speed = audio_s / max(1e-6, time.monotonic() - self._started_at)
        line = f"{audio_s:8.1f} s spoken, {speed:5.1f} times as fast as speech"
        print(f"\r{line}", end="", file=sys.stderr, flush=True)
