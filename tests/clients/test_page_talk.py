"""The talk side of the page: a real browser, its microphone a file, answers by script."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.clients.browser import browsing
from tests.clients.conftest import KEY
from tests.clients.relay import relaying
from tests.clients.talk_visit import TalkVisit, speaking_browser, talking_visit
from tests.clients.talking import PCM_RATE, Talk, said, talking
from tests.e2e.server_process import ServerProcess

pytestmark = [pytest.mark.model, pytest.mark.process, pytest.mark.asr]

QUESTION = "Could you tell me how to get to the museum, please?"
REMARK = "The weather will be cold and windy tomorrow."
# From the opening of the microphone to the first word.
BEFORE = 20.0
# An answer lasts longer than this.
ANSWER_S = 24.0
# The page's ears listen twenty times a second, but when the machine is busy with other things.
EARS_S = 2.0
# A voice that is cut off fades, and ears hear the last sixth of a second.
FADED_S = 0.3
QUIET = 1e-4
# Something has sounded; nothing has for a second.
LOUD = "() => window.sounds.some((sound) => sound.loudness > 1e-2)"
SILENT = "() => window.sounds.slice(-20).every((sound) => sound.loudness < 1e-4)"


def pause(seconds: float) -> bytes:
    return bytes(2 * round(seconds * PCM_RATE))


@pytest.fixture(scope="module")
def talk() -> Iterator[Talk]:
    """Each answer says eight times what was said, for some thirty seconds."""
    with talking(tokens_per_s=100, num_times=8) as talk:
        yield talk


def address(port: int) -> str:
    return f"http://127.0.0.1:{port}/"


def words(visit: TalkVisit, side: str) -> list[str]:
    return visit.at(f".entry.{side} p").all_inner_texts()


def seconds_heard(sounds: list[dict[str, Any]]) -> float:
    """On the player's clock, from the first sound to the last."""
    times = [sound["at"] for sound in sounds if sound["loudness"] > QUIET]
    return float(times[-1] - times[0])


def test_a_turn_from_the_first_word_to_the_last(talk: Talk, tmp_path: Path) -> None:
    with (
        speaking_browser(tmp_path, pause(BEFORE), said(QUESTION), pause(60)) as browser,
        talking_visit(browser, address(talk.server.port)) as visit,
    ):
        visit.page.check("input[value=clara]", force=True)
        visit.page.click("#talk-start")
        visit.await_turns("asking", "listening", "hearing", "thinking", "speaking", "listening")
        expect(visit.at("#talk-status")).to_have_text("Listening.")

        (question,) = words(visit, "user")
        (answer,) = words(visit, "assistant")
        assert "museum" in question
        assert answer == " ".join([f"You said: {question}"] * 8)
        assert visit.at(".entry del:visible").count() == 0
        assert max(sound["loudness"] for sound in visit.sounds()) > 0.02
        assert seconds_heard(visit.sounds()) > ANSWER_S
        assert visit.page.evaluate("window.wishes.audio.echoCancellation")
        (update,) = visit.told("session.update")
        assert update["session"]["audio"]["output"] == {"voice": "clara"}
        assert [event for event in visit.received if event["type"] == "error"] == []
        assert visit.complaints == []


def test_who_interrupts_is_heard_and_only_what_was_heard_stays(talk: Talk, tmp_path: Path) -> None:
    with (
        speaking_browser(tmp_path, pause(60)) as browser,
        talking_visit(browser, address(talk.server.port), is_told=True) as visit,
    ):
        visit.page.click("#talk-start")
        visit.await_turns("listening")
        visit.say(said(QUESTION))
        visit.await_turns("hearing", "speaking")
        visit.page.wait_for_function(LOUD)
        visit.say(said(REMARK))
        visit.await_turns("hearing", "speaking", "hearing", "thinking", "speaking")
        sounds = visit.sounds()

        # From when the page knows that somebody speaks, its first answer is silent.
        cut_at, again_at = visit.begins("hearing")[1], visit.begins("speaking")[1]
        after = [sound for sound in sounds if cut_at <= sound["now"] < again_at]
        silent = [sound for sound in after if sound["at"] > after[0]["at"] + FADED_S]
        assert silent
        assert all(sound["loudness"] < QUIET for sound in silent)

        (cut,) = visit.told("conversation.item.truncate")
        first_answer = [sound for sound in sounds if sound["now"] < again_at]
        assert 0 < cut["audio_end_ms"] / 1000 < seconds_heard(first_answer) + EARS_S
        entry = visit.at(".entry.assistant").first
        heard = entry.locator("p span").inner_text()
        unheard = entry.locator("del:visible").inner_text()
        assert heard.startswith("You said: Could you tell me")
        assert unheard
        messages = talk.llm.asked()[-1]["messages"]
        assert messages[-2] == {"role": "assistant", "content": heard}
        assert "weather" in messages[-1]["content"]
        assert "weather" in words(visit, "user")[-1]
        assert visit.complaints == []


def test_a_conversation_needs_no_mouse(talk: Talk, tmp_path: Path) -> None:
    with (
        speaking_browser(tmp_path, pause(60)) as browser,
        talking_visit(browser, address(talk.server.port), is_told=True) as visit,
    ):
        visit.page.keyboard.press("Control+Enter")
        visit.await_turns("listening")
        visit.say(said(QUESTION))
        visit.await_turns("thinking", "speaking")
        visit.page.keyboard.press("Escape")
        visit.await_turns("speaking", "listening")
        expect(visit.at(".assistant del")).to_be_visible()
        (cut,) = visit.told("conversation.item.truncate")
        visit.page.keyboard.press("Control+Enter")
        visit.await_turns("ended")

        assert cut["audio_end_ms"] < ANSWER_S * 1000
        expect(visit.at("#talk-status")).to_have_text("Ended.")
        expect(visit.at("#talk-start")).to_have_text("Start talking")
        expect(visit.at("#mute")).to_be_disabled()
        assert visit.complaints == []


def test_a_muted_microphone_gives_silence(talk: Talk, tmp_path: Path) -> None:
    with (
        speaking_browser(tmp_path, pause(60)) as browser,
        talking_visit(browser, address(talk.server.port), is_told=True) as visit,
    ):
        visit.page.click("#talk-start")
        visit.await_turns("listening")
        visit.page.click("#mute")
        expect(visit.at("#talk-status")).to_have_text("Muted. Nothing you say is heard.")
        visit.say(said(QUESTION))
        # What was said is on its way for less than three seconds.
        visit.await_spoken(len(visit.spoken) + 75)
        muted = np.concatenate(visit.spoken)
        visit.page.click("#mute")
        visit.say(said(REMARK))
        visit.await_turns("listening", "hearing", "thinking", "speaking")

        assert not muted.any()
        assert np.concatenate(visit.spoken).any()
        assert ["weather" in said for said in words(visit, "user")] == [True]


def test_a_refused_microphone_is_told_and_can_be_allowed(talk: Talk, tmp_path: Path) -> None:
    with (
        speaking_browser(tmp_path, pause(60)) as browser,
        talking_visit(browser, address(talk.server.port), permissions=[]) as visit,
    ):
        visit.page.click("#talk-start")
        visit.await_turns("failed")
        expect(visit.at("#talk-error")).to_have_text(re.compile("^The microphone is not allowed."))
        expect(visit.at("#talk-start")).to_have_text("Start talking")

        visit.context.grant_permissions(["microphone"])
        visit.page.click("#talk-start")
        visit.await_turns("failed", "listening")
        expect(visit.at("#talk-error")).to_be_hidden()
        assert visit.complaints == []


def test_without_a_microphone_it_says_so(talk: Talk) -> None:
    with browsing() as browser, talking_visit(browser, address(talk.server.port)) as visit:
        visit.page.click("#talk-start")
        expect(visit.at("#talk-error")).to_have_text(re.compile("^There is no microphone."))


def test_a_lost_connection_is_told_and_another_can_begin(talk: Talk, tmp_path: Path) -> None:
    with (
        relaying(talk.server.port) as relay,
        speaking_browser(tmp_path, pause(60)) as browser,
        talking_visit(browser, address(relay.port), is_told=True) as visit,
    ):
        visit.page.click("#talk-start")
        visit.await_turns("listening")
        visit.say(said(QUESTION))
        visit.await_turns("thinking", "speaking")
        visit.page.wait_for_function(LOUD)
        relay.cut()
        visit.await_turns("speaking", "failed")
        expect(visit.at("#talk-error")).to_have_text("The connection to the server was lost.")
        assert "museum" in words(visit, "user")[0]
        visit.page.wait_for_function(SILENT)
        assert seconds_heard(visit.sounds()) < ANSWER_S

        visit.page.click("#talk-start")
        visit.await_turns("failed", "listening")
        visit.say(said(QUESTION))
        visit.await_turns("failed", "listening", "hearing", "speaking")
        expect(visit.at("#talk-error")).to_be_hidden()
        assert len(words(visit, "user")) == 1


def test_a_failed_answer_is_told_and_the_conversation_goes_on(tmp_path: Path) -> None:
    with (
        talking(environ={"VOXLOOM_THINKER_URL": "http://127.0.0.1:9/v1"}) as talk,
        speaking_browser(tmp_path, pause(60)) as browser,
        talking_visit(browser, address(talk.server.port), is_told=True) as visit,
    ):
        visit.page.click("#talk-start")
        visit.await_turns("listening")
        visit.say(said(QUESTION))
        visit.await_turns("thinking", "listening")
        expect(visit.at("#talk-error")).to_be_visible()
        assert len(words(visit, "user")) == 1
        assert visit.complaints == []


def test_leaving_the_side_ends_the_conversation(talk: Talk, tmp_path: Path) -> None:
    with (
        speaking_browser(tmp_path, pause(60)) as browser,
        talking_visit(browser, address(talk.server.port)) as visit,
    ):
        visit.page.click("#talk-start")
        visit.await_turns("listening")
        visit.page.click("#modes >> text=Type")
        visit.await_turns("listening", "ended")

        expect(visit.at("#text")).to_be_visible()
        expect(visit.at("#log")).to_be_hidden()
        assert visit.page.evaluate("window.tracks.map((track) => track.readyState)") == ["ended"]
        visit.page.go_back()
        expect(visit.at("#log")).to_be_visible()
        assert visit.complaints == []


def test_a_server_that_cannot_talk_says_how_it_could(server: ServerProcess) -> None:
    with browsing() as browser, talking_visit(browser, address(server.port)) as visit:
        expect(visit.at(".no-talk")).to_contain_text("export VOXLOOM_THINKER_URL=")
        expect(visit.at("#talk-start")).to_be_hidden()
        expect(visit.at(".voices")).to_be_hidden()
        assert visit.complaints == []


def test_a_locked_server_is_talked_to_with_the_key(tmp_path: Path) -> None:
    with (
        talking(environ={"VOXLOOM_API_KEY": KEY}) as talk,
        speaking_browser(tmp_path, pause(60)) as browser,
        talking_visit(browser, address(talk.server.port)) as visit,
    ):
        visit.page.fill("#key", "wrong")
        visit.page.click("#talk-start")
        expect(visit.at("#talk-error")).to_have_text("The server does not know this API key.")
        visit.page.fill("#key", KEY)
        visit.page.keyboard.press("Enter")
        visit.await_turns("listening")

        expect(visit.at("#talk-error")).to_be_hidden()
        refusals = [text for text in visit.complaints if "401" in text]
        assert visit.complaints == refusals


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_all_of_it(talk: Talk, scheme: str) -> None:
    small = {"width": 360, "height": 740}
    with (
        browsing() as browser,
        talking_visit(
            browser, address(talk.server.port), viewport=small, color_scheme=scheme
        ) as visit,
    ):
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= 360
        assert (visit.picture("body")[2, 2].mean() > 128) == (scheme == "light")
        for selector in ("#talk-start", "#mute", "#hush", "#levels"):
            box = visit.at(selector).bounding_box()
            assert box is not None
            assert 0 <= box["x"] <= box["x"] + box["width"] <= 360


def test_a_screen_reader_finds_its_way(talk: Talk) -> None:
    with browsing() as browser, talking_visit(browser, address(talk.server.port)) as visit:
        page = visit.page
        expect(page.get_by_role("log", name="What was said")).to_be_visible()
        expect(page.get_by_role("button", name="Start talking")).to_be_enabled()
        expect(page.get_by_role("button", name="Mute", pressed=False)).to_be_visible()
        expect(page.get_by_role("status")).to_have_text("Not started.")
        expect(page.get_by_role("link", name="Talk")).to_have_attribute("aria-current", "page")
        expect(page.get_by_role("radiogroup", name="Voice")).to_be_visible()
        reached = []
        for _ in range(8):
            page.keyboard.press("Tab")
            reached.append(
                page.evaluate("document.activeElement.id || document.activeElement.name")
            )
        assert [name for name in reached if name] == ["theme", "log", "talk-start", "voice"]
