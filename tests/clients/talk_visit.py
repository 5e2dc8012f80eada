"""A visitor who talks with the page: its microphone is a file, and ears hear what it plays."""

from __future__ import annotations

import base64
import json
import wave
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from playwright.sync_api import Browser, WebSocket

from tests.clients.browser import Visit, browsing
from tests.clients.talking import PCM_RATE

APPEND = "input_audio_buffer.append"
# Half a minute of speech on a machine that is busy with other things.
_TURNS_TIMEOUT_MS = 600_000
# Keeps the turns in order, and when each began, in ms of the page's clock; the microphone's tracks,
# and what was asked of it; and how loud all was that the page played: {loudness, now, at}, twenty
# times a second, by the page's clock (ms) and the player's (s).
_EARS = """
window.turns = [];
window.begins = [];
window.sounds = [];
addEventListener("DOMContentLoaded", () => {
  new MutationObserver(() => {
    const turn = document.body.dataset.turn;
    if (turn === window.turns.at(-1)) return;
    window.turns.push(turn);
    window.begins.push(performance.now());
  }).observe(document.body, { attributeFilter: ["data-turn"] });
});
window.tracks = [];
const { mediaDevices } = navigator;
const getUserMedia = mediaDevices.getUserMedia.bind(mediaDevices);
mediaDevices.getUserMedia = async (wishes) => {
  window.wishes = wishes;
  const stream = await getUserMedia(wishes);
  window.tracks.push(...stream.getTracks());
  return stream;
};
const connect = AudioNode.prototype.connect;
AudioNode.prototype.connect = function (target, ...rest) {
  if (target instanceof AudioDestinationNode) listen(this);
  return connect.call(this, target, ...rest);
};
function listen(node) {
  const ear = new AnalyserNode(node.context, { fftSize: 4096 });
  const samples = new Float32Array(4096);
  connect.call(node, ear);
  setInterval(() => {
    ear.getFloatTimeDomainData(samples);
    const loudness = Math.sqrt(samples.reduce((sum, x) => sum + x * x, 0) / samples.length);
    window.sounds.push({ loudness, now: performance.now(), at: node.context.currentTime });
  }, 50);
}
"""
# A microphone that hears what it is told to, when it is told to: `say(pcm)` takes s16le at 24 kHz
# in base64, and is done when all of it has been said.
_MICROPHONE = """
const ask = mediaDevices.getUserMedia;
mediaDevices.getUserMedia = async (wishes) => {
  await ask(wishes);
  const context = new AudioContext({ sampleRate: 24000 });
  const microphone = new MediaStreamAudioDestinationNode(context);
  window.say = (pcm) => new Promise((resolve) => {
    const bytes = Uint8Array.from(atob(pcm), (char) => char.charCodeAt(0));
    const samples = Float32Array.from(new Int16Array(bytes.buffer), (sample) => sample / 32768);
    const buffer = new AudioBuffer({ length: samples.length, sampleRate: 24000 });
    buffer.copyToChannel(samples, 0);
    const voice = new AudioBufferSourceNode(context, { buffer });
    connect.call(voice, microphone);
    voice.onended = resolve;
    voice.start();
  });
  return microphone.stream;
};
"""
_IN_ORDER = """(wanted) => {
  const rest = [...wanted];
  for (const turn of window.turns) if (turn === rest[0]) rest.shift();
  return rest.length === 0;
}"""


class TalkVisit(Visit):
    """``sent`` and ``received`` are the events of the page's WebSockets, without sound.

    The microphone hears what its browser has for it or, if it ``is_told``, what ``say`` gives it.

    ``spoken`` is the sound that it has sent, s16le at 24 kHz, piece by piece.
    """

    LOADED = ".voice:visible, .no-talk:visible"

    def __init__(
        self, browser: Browser, address: str, *, is_told: bool = False, **options: Any
    ) -> None:
        self._scripts = _EARS + _MICROPHONE if is_told else _EARS
        self.sent: list[dict[str, Any]] = []
        self.received: list[dict[str, Any]] = []
        self.spoken: list[NDArray[np.int16]] = []
        super().__init__(browser, f"{address}#talk", **options)

    def await_turns(self, *turns: str) -> None:
        """Until the page has been through these turns, others between them or not."""
        self.page.wait_for_function(_IN_ORDER, arg=turns, timeout=_TURNS_TIMEOUT_MS)

    def await_spoken(self, num_pieces: int) -> None:
        """Until so many pieces of sound have gone to the server, of 40 ms each."""
        while len(self.spoken) < num_pieces:
            self.page.evaluate("new Promise(requestAnimationFrame)")

    def say(self, pcm: bytes) -> None:
        """Say this, s16le at 24 kHz, to a microphone that ``is_told``; returns when it is said."""
        self.page.evaluate("pcm => window.say(pcm)", base64.b64encode(pcm).decode("ascii"))

    def sounds(self) -> list[dict[str, Any]]:
        heard: list[dict[str, Any]] = self.page.evaluate("window.sounds")
        return heard

    def begins(self, turn: str) -> list[float]:
        """When the page entered that turn, each time, in ms of its clock."""
        turns: list[tuple[str, float]] = self.page.evaluate(
            "window.turns.map((turn, number) => [turn, window.begins[number]])"
        )
        return [at for name, at in turns if name == turn]

    def told(self, kind: str) -> list[dict[str, Any]]:
        """What the page has sent of one type."""
        return [event for event in self.sent if event["type"] == kind]

    def _prepare(self) -> None:
        self.context.add_init_script(self._scripts)

    def _listen(self) -> None:
        super()._listen()
        self.page.on("websocket", self._follow)

    def _follow(self, socket: WebSocket) -> None:
        socket.on("framesent", self._note_sent)
        socket.on("framereceived", self._note_received)

    def _note_sent(self, frame: str | bytes) -> None:
        event = json.loads(frame)
        if event["type"] == APPEND:
            self.spoken.append(np.frombuffer(base64.b64decode(event["audio"]), np.int16))
        else:
            self.sent.append(event)

    def _note_received(self, frame: str | bytes) -> None:
        event = json.loads(frame)
        if event["type"] != "response.output_audio.delta":
            self.received.append(event)


@contextmanager
def speaking_browser(folder: Path, *pieces: bytes) -> Iterator[Browser]:
    """A browser whose microphone hears these, s16le at 24 kHz, once, from when it is opened."""
    path = folder / "microphone.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(PCM_RATE)
        file.writeframes(b"".join(pieces))
    with browsing(
        "--use-fake-device-for-media-stream", f"--use-file-for-fake-audio-capture={path}%noloop"
    ) as browser:
        yield browser


@contextmanager
def talking_visit(browser: Browser, address: str, **options: Any) -> Iterator[TalkVisit]:
    """A visit on the talk side, whose microphone is allowed; ``options`` are a context's."""
    visit = TalkVisit(browser, address, **{"permissions": ["microphone"], **options})
    try:
        yield visit
    finally:
        visit.context.close()
