"""The modules of the page that only compute, run by the browser that they are for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.clients.browser import Visit, browsing, visiting
from tests.e2e.server_process import ServerProcess

# A tone goes through the resampler in pieces of these sizes; the middle second of what comes out.
_TONE = """async ({ from, hz, sizes }) => {
  const { Resampler } = await import("/page/resampler.js");
  const resampler = new Resampler(from, 24000);
  const output = [];
  for (let at = 0, turn = 0; at < 2 * from; turn += 1) {
    const size = sizes[turn % sizes.length];
    const piece = Float32Array.from({ length: size }, (_, i) => (
      0.5 * Math.sin((2 * Math.PI * hz * (at + i)) / from)
    ));
    output.push(...resampler.push(piece));
    at += size;
  }
  return output;
}"""
# What the page's conversation wants after these events, each with what had been played by then.
_CONVERSATION = """async (events) => {
  const { Conversation } = await import("/page/conversation.js");
  const conversation = new Conversation();
  return events.map(([event, playedMs]) => {
    const wishes = event.type === "played"
      ? conversation.played(event.id)
      : event.type === "stop" ? conversation.stop(playedMs) : conversation.receive(event, playedMs);
    return { turn: conversation.turn, wishes: JSON.parse(JSON.stringify(wishes)) };
  });
}"""


@pytest.fixture(scope="module")
def visit(server: ServerProcess) -> Iterator[Visit]:
    with browsing() as browser, visiting(browser, f"http://127.0.0.1:{server.port}/") as visit:
        yield visit


def tone(visit: Visit, rate: int, hz: float, sizes: list[int]) -> list[float]:
    argument = {"from": rate, "hz": hz, "sizes": sizes}
    samples: list[float] = visit.page.evaluate(_TONE, argument)
    return samples


def peak(samples: list[float]) -> float:
    return max(abs(sample) for sample in samples[12_000:36_000])


@pytest.mark.parametrize("rate", [24_000, 44_100, 48_000, 16_000, 96_000])
def test_a_tone_keeps_its_loudness_and_its_length_at_another_rate(visit: Visit, rate: int) -> None:
    samples = tone(visit, rate, 1000, [128])

    assert peak(samples) == pytest.approx(0.5, abs=0.002)
    assert len(samples) == pytest.approx(48_000, abs=60)
    # A tone of 1000 Hz repeats after 24 samples, wherever the filter's phase is.
    assert samples[20_000:30_000] == pytest.approx(samples[20_024:30_024], abs=1e-3)


@pytest.mark.parametrize("hz", [13_500, 15_000, 20_000])
def test_what_the_lower_rate_cannot_hold_is_taken_out(visit: Visit, hz: int) -> None:
    assert peak(tone(visit, 48_000, hz, [128])) < 0.5 / 1000


def test_the_cuts_between_pieces_do_not_matter(visit: Visit) -> None:
    whole = tone(visit, 44_100, 440, [88_200])
    pieces = tone(visit, 44_100, 440, [1, 127, 128, 500, 3])

    assert pieces[: len(whole)] == whole[: len(pieces)]
    assert abs(len(pieces) - len(whole)) <= 300


def test_samples_survive_their_way(visit: Visit) -> None:
    samples, encoded, loudness = visit.page.evaluate(
        """async () => {
          const { toInt16, toBase64, fromBase64, loudness } = await import("/page/pcm.js");
          const samples = toInt16(Float32Array.of(0, 0.5, -0.5, 1, -1, 2, -2));
          const encoded = toBase64(samples.buffer);
          const back = [...new Int16Array(fromBase64(encoded))];
          return [back, encoded, loudness(toInt16([0.5, -0.5]))];
        }"""
    )

    assert samples == [0, 16384, -16384, 32767, -32768, 32767, -32768]
    assert encoded == "AAAAQADA/38AgP9/AIA="
    assert loudness == pytest.approx(0.5)


class Script:
    """A server's events, and what the page makes of each."""

    def __init__(self) -> None:
        self.events: list[tuple[dict[str, Any], float]] = []

    def add(self, kind: str, played_ms: float = 0, **fields: Any) -> Script:
        self.events.append(({"type": kind} | fields, played_ms))
        return self

    def turn(self, item_id: str, words: str) -> Script:
        """The user says something."""
        transcription = "conversation.item.input_audio_transcription"
        self.add("input_audio_buffer.speech_started", item_id=item_id)
        self.add("input_audio_buffer.speech_stopped", item_id=item_id)
        self.add("input_audio_buffer.committed", item_id=item_id)
        return self.add(f"{transcription}.completed", item_id=item_id, transcript=words)

    def answer(self, item_id: str, words: str) -> Script:
        """The server begins to answer."""
        self.add("response.created")
        self.add("response.output_item.added", item={"id": item_id, "type": "message"})
        self.add("response.output_audio_transcript.delta", item_id=item_id, delta=words)
        return self.add("response.output_audio.delta", item_id=item_id, delta="AAA=")

    def done(self, item_id: str, status: str = "completed", **details: Any) -> Script:
        response = {"status": status, "output": [{"id": item_id}], "status_details": details}
        return self.add("response.done", response=response)

    def play(self, visit: Visit) -> list[dict[str, Any]]:
        steps: list[dict[str, Any]] = visit.page.evaluate(_CONVERSATION, self.events)
        return steps


def wishes(step: dict[str, Any]) -> list[str]:
    return [
        wish["event"]["type"] if wish["do"] == "send" else wish["do"] for wish in step["wishes"]
    ]


def test_a_turn_goes_from_hearing_to_the_last_sound(visit: Visit) -> None:
    script = Script().turn("u", "Hello.").answer("a", "Hi.").done("a").add("played", id="a")

    turns = [step["turn"] for step in script.play(visit)]

    assert turns == ["hearing", *["thinking"] * 6, *["speaking"] * 2, "listening"]


def test_a_cough_is_no_turn(visit: Visit) -> None:
    *_, last = Script().turn("u", "").play(visit)

    assert (last["turn"], wishes(last)) == ("listening", ["drop"])


def test_an_interruption_says_what_was_heard_and_shows_it(visit: Visit) -> None:
    script = Script().turn("u", "Hello.").answer("a", "One two.").done("a")
    script.add("input_audio_buffer.speech_started", 1234.9, item_id="v")
    script.add("conversation.item.truncated", item_id="a")
    kept = {"id": "a", "content": [{"type": "output_audio", "transcript": "One"}]}
    script.add("conversation.item.retrieved", item=kept)

    cut, truncated, retrieved = script.play(visit)[-3:]

    assert wishes(cut) == ["halt", "conversation.item.truncate", "show"]
    assert cut["wishes"][1]["event"]["audio_end_ms"] == 1234
    assert wishes(truncated) == ["conversation.item.retrieve"]
    assert retrieved["wishes"][0]["entry"]["heard"] == 3


def test_sound_that_comes_after_a_stop_is_not_played(visit: Visit) -> None:
    script = Script().turn("u", "Hello.").answer("a", "One two.")
    script.add("stop", 500).add("response.output_audio.delta", item_id="a", delta="AAA=")
    script.done("a", "cancelled")
    script.add("error", error={"code": "response_cancel_not_active", "message": "too late"})

    stop, late, done, error = script.play(visit)[-4:]

    assert wishes(stop) == ["response.cancel", "halt", "conversation.item.truncate"]
    assert (late["turn"], wishes(late)) == ("thinking", [])
    assert (done["turn"], wishes(done)) == ("listening", ["show"])
    assert wishes(error) == []


def test_a_failed_answer_is_told(visit: Visit) -> None:
    script = Script().turn("u", "Hello.").add("response.created")
    response = {"status": "failed", "output": [], "status_details": {"error": {"message": "no"}}}

    *_, last = script.add("response.done", response=response).play(visit)

    assert (last["turn"], wishes(last)) == ("listening", ["complain"])
    assert last["wishes"][0]["error"] == {"message": "no"}


def test_a_turn_whose_sound_was_lost_leaves_nothing_behind(visit: Visit) -> None:
    script = Script().add("input_audio_buffer.speech_started", item_id="u")
    script.add("input_audio_buffer.speech_stopped", item_id="u")

    *_, last = script.add("error", error={"code": "unavailable", "message": "gone"}).play(visit)

    assert (last["turn"], wishes(last)) == ("listening", ["drop", "complain"])
