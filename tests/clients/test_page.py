"""The page in a real browser, with the voice that ships."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, expect

from tests.clients.browser import Visit, browsing, share_of, visiting
from tests.clients.conftest import KEY
from tests.clients.speech import check_speech, hear
from tests.e2e.server_process import ServerProcess

TEXT = "It costs $3.50, said the 🦊 fox. Then it left!"
WORDS = ["It", "costs", "$3.50,", "said", "the", "fox.", "Then", "it", "left!"]
SHORT = "Hello there, fox."
LONG = "The weaver worked at night, when the house was quiet. " * 40
# The colours of the light theme: threads that were heard, the playhead, the marked word.
HEARD, PLAYHEAD, MARKED = (74, 63, 196), (228, 87, 46), (255, 211, 107)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as browser:
        yield browser


@pytest.fixture
def visit(browser: Browser, server: ServerProcess) -> Iterator[Visit]:
    """A visit that must end without a complaint."""
    address = f"http://127.0.0.1:{server.port}/"
    with visiting(browser, address, color_scheme="light") as visit:
        yield visit
        assert visit.complaints == []


def speak(visit: Visit, text: str) -> None:
    visit.write(text)
    visit.page.click("#speak")


def speak_slowly(visit: Visit, text: str) -> None:
    """Each word is there for longer than a busy machine takes for a picture."""
    visit.page.fill("#speed", "-2")
    speak(visit, text)


def test_words_are_marked_in_order_while_they_are_spoken(visit: Visit) -> None:
    speak_slowly(visit, TEXT)
    visit.await_phase("done")

    # A word that is shorter than the time between two pictures is left out.
    marked = iter(visit.marked())
    seen = [word for word in marked if word in WORDS]
    assert len(seen) > len(WORDS) // 2
    remaining = iter(WORDS)
    assert all(word in remaining for word in seen)
    expect(visit.at("#status")).to_have_text(re.compile(r"^Done: \d+\.\d s of speech\."))


def test_the_waveform_and_the_word_are_there_to_be_seen(visit: Visit) -> None:
    speak(visit, LONG[:540])
    visit.await_words(5)

    wave, text = visit.picture("#waveform"), visit.picture(".paper")

    assert share_of(wave, HEARD) > 0.001
    assert share_of(wave, PLAYHEAD) > 0.001
    assert 0.002 < share_of(text, MARKED) < 0.1
    # Speech swells: the threads have many lengths.
    is_thread = np.abs(wave.astype(int) - wave[0, 0]).max(axis=-1) > 30
    assert len(set(is_thread.sum(axis=0).tolist())) > 8


def test_figures_come_with_the_audio(visit: Visit) -> None:
    expect(visit.at("#ttfa")).to_have_text("–")
    began_at = time.monotonic()
    speak(visit, SHORT)
    visit.await_phase("done")
    took_s = time.monotonic() - began_at

    shown = {name: visit.at(f"#{name}").inner_text() for name in ("ttfa", "rtf", "pace", "audio")}
    assert re.fullmatch(r"\d+ ms", shown["ttfa"])
    rtf, audio_s = float(shown["rtf"]), float(shown["audio"].removesuffix(" s"))
    assert 0.6 < audio_s < 2
    # It was made before all of it had been heard.
    assert 0 < rtf * audio_s < took_s * 1.05
    assert re.fullmatch(r"[\d.]+×", shown["pace"])
    assert float(shown["pace"].removesuffix("×")) == pytest.approx(1 / rtf, rel=0.1, abs=0.5)


def test_stopping_tells_what_was_heard(visit: Visit) -> None:
    speak(visit, LONG)
    visit.await_words(3)
    visit.page.click("#speak")
    visit.await_phase("stopped")

    status = visit.at("#status").inner_text()
    said = visit.at(".said").inner_text()
    assert LONG.startswith(said)
    told = re.fullmatch(r"Stopped after \d+\.\d s, up to “(?:… )?(.+)”\.", status)
    assert told is not None
    assert said.endswith(told[1])
    # The word that was marked had begun, so those before it were heard.
    assert visit.marked()[-2] in said
    expect(visit.at("#speak-label")).to_have_text("Speak")


def test_a_stopped_speech_is_saved_as_far_as_it_was_heard(visit: Visit) -> None:
    speak(visit, LONG)
    visit.await_words(3)
    visit.page.keyboard.press("Escape")
    visit.await_phase("stopped")

    status = visit.at("#status").inner_text()
    heard_s = float(status.split()[2])
    assert hear(visit.save("#save-wav")).duration_s == pytest.approx(heard_s, abs=0.06)
    assert hear(visit.save("#save-mp3")).duration_s == pytest.approx(heard_s, abs=1.0)


def test_what_was_spoken_can_be_saved(visit: Visit) -> None:
    speak(visit, SHORT)
    visit.await_phase("done")

    wav = check_speech(visit.save("#save-wav"), "wav", 0.6, 2.0)
    mp3 = check_speech(visit.save("#save-mp3"), "mp3", 0.6, 2.0)
    assert mp3.duration_s == pytest.approx(wav.duration_s, abs=0.1)
    subtitles = visit.save("#save-vtt").decode()
    assert subtitles.startswith("WEBVTT\n\n00:00:00.")
    assert subtitles.endswith(f"\n{SHORT}\n")


def test_it_can_be_played_again_from_any_place(visit: Visit) -> None:
    speak_slowly(visit, TEXT)
    visit.await_words(1)
    visit.page.focus("#waveform")
    visit.page.keyboard.press("End")
    visit.await_phase("done")
    expect(visit.at("mark")).to_be_empty()
    expect(visit.at(".said")).to_have_text(TEXT)
    visit.page.evaluate("window.marked.length = 0")
    visit.page.keyboard.press("Home")
    visit.await_words(1)
    assert visit.marked()[0] in WORDS[:5]
    expect(visit.at("#speak-label")).to_have_text("Stop")
    visit.page.keyboard.press("End")

    expect(visit.at("#speak-label")).to_have_text("Speak")
    expect(visit.at("mark")).to_be_empty()


def test_everything_works_from_the_keyboard_alone(visit: Visit) -> None:
    page = visit.page
    page.keyboard.press("Tab")
    reached = []
    for _ in range(16):
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.name"))
        page.keyboard.press("Tab")
    for name in ("theme", "text", "waveform", "speak", "voice", "speed", "copy"):
        assert name in reached

    page.focus("#text")
    page.keyboard.press("Control+A")
    page.keyboard.type("Hello from the keyboard. " * 9)
    page.focus(".voice :checked")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Control+Enter")
    visit.await_words(1)
    page.keyboard.press("Escape")
    visit.await_phase("stopped")
    assert '"voice":"clara"' in visit.at("#curl").inner_text()


def test_the_curl_command_speaks_the_same_text(visit: Visit, tmp_path: Path) -> None:
    text = 'It\'s "quoted" \\ with $HOME,\n`ticks` and ünïcode!'
    visit.write(text)
    visit.page.fill("#speed", "1")
    command = visit.at("#curl").inner_text()

    assert '"speed":2' in command
    subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True, capture_output=True)
    check_speech((tmp_path / "speech.mp3").read_bytes(), "mp3", 0.7, 4.0)
    body = re.search(r"-d ('.*') \\\n", command, re.DOTALL)
    assert body is not None
    echoed = subprocess.run(["bash", "-c", f"printf %s {body[1]}"], capture_output=True, check=True)
    assert visit.page.evaluate("JSON.parse", echoed.stdout.decode())["input"] == text


def test_the_command_is_copied(visit: Visit) -> None:
    visit.context.grant_permissions(["clipboard-read", "clipboard-write"])
    visit.page.click("#copy")
    expect(visit.at("#copy")).to_have_text("Copied")

    assert visit.page.evaluate("navigator.clipboard.readText()") == visit.at("#curl").inner_text()


def test_what_was_skipped_is_told(visit: Visit) -> None:
    speak(visit, "Hello 中 there.")
    visit.await_phase("done")

    expect(visit.at("#status")).to_contain_text("Note: skipped 1 character of Han script.")


@pytest.mark.parametrize("text", ["", "  \n"])
def test_without_a_text_it_asks_for_one(visit: Visit, text: str) -> None:
    speak(visit, text)

    expect(visit.at("#error")).to_have_text("There is no text yet. Type or paste one first.")


def test_a_text_that_cannot_be_spoken_is_an_error_in_plain_words(visit: Visit) -> None:
    speak(visit, "日本語")
    visit.await_phase("failed")

    expect(visit.at("#error")).to_contain_text("There is nothing in this text that can be spoken.")
    speak(visit, "But this can.")
    visit.await_phase("done")
    expect(visit.at("#error")).to_be_hidden()


def test_blocks_of_audio_meet_without_a_gap(visit: Visit) -> None:
    """What the player places on the clock is what the tape holds, sample for sample."""
    differs = visit.page.evaluate(
        """async () => {
          const { Tape } = await import("/page/tape.js");
          const { Player } = await import("/page/player.js");
          const context = new OfflineAudioContext(1, 24000 * 3, 24000);
          const tape = new Tape(24000);
          const player = new Player(context, tape, () => {});
          player.play();
          const sizes = [2400, 7200, 1001, 14400, 33333];
          let at = 0;
          for (const size of sizes) {
            const wave = (_, i) => 30000 * Math.sin((at + i) / 7);
            const part = Int16Array.from({ length: size }, wave);
            tape.append(part.buffer);
            player.pump();
            at += size;
          }
          const heard = (await context.startRendering()).getChannelData(0);
          const start = Math.ceil(0.04 * 24000);
          const wanted = tape.read(0, new Float32Array(at));
          return wanted.reduce((most, x, i) => Math.max(most, Math.abs(x - heard[start + i])), 0);
        }"""
    )

    assert differs < 1e-6


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_theme_follows_the_system_until_one_is_chosen(
    browser: Browser, server: ServerProcess, scheme: str
) -> None:
    address = f"http://127.0.0.1:{server.port}/"
    with visiting(browser, address, color_scheme=scheme) as visit:
        is_bright = [visit.picture("body")[2, 2].mean() > 128]
        for _ in range(2):
            visit.page.click("#theme")
            is_bright.append(visit.picture("body")[2, 2].mean() > 128)
        visit.page.reload()
        assert visit.picture("body")[2, 2].mean() < 128

        assert is_bright == [scheme == "light", True, False]


def test_a_phone_has_room_for_all_of_it(browser: Browser, server: ServerProcess) -> None:
    address = f"http://127.0.0.1:{server.port}/"
    with visiting(browser, address, viewport={"width": 360, "height": 740}) as visit:
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= 360


def test_the_form_is_remembered(visit: Visit) -> None:
    visit.write("Remember me.")
    visit.page.check("input[value=ruth]", force=True)
    visit.page.reload()
    visit.await_loaded()

    expect(visit.at("#text")).to_have_value("Remember me.")
    expect(visit.at("input[value=ruth]")).to_be_checked()


def test_a_locked_server_is_asked_with_the_key(
    browser: Browser, locked_server: ServerProcess
) -> None:
    with visiting(browser, f"http://127.0.0.1:{locked_server.port}/") as visit:
        visit.page.fill("#key", "wrong")
        visit.page.click("#speak")
        expect(visit.at("#error")).to_have_text("The server does not know this API key.")

        visit.page.fill("#key", KEY)
        visit.page.keyboard.press("Enter")
        visit.await_phase("done")
        expect(visit.at("#error")).to_be_hidden()
        assert KEY not in visit.page.inner_text("body")
        assert "$OPENAI_API_KEY" in visit.at("#curl").inner_text()
        refusals = [text for text in visit.complaints if "401" in text]
        assert visit.complaints == refusals
