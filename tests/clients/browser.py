"""Chromium on the page of a server, and what a test wants to know of it."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import av
import numpy as np
from numpy.typing import NDArray
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect, sync_playwright

# Without a display, a sound card or a network; root may not use its sandbox.
_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--autoplay-policy=user-gesture-required",
)
_TIMEOUT_MS = 180_000
# Keeps which words were marked. `whenMarked(count)` waits until so many have been.
_WATCHER = """
window.marked = [];
const waiting = [];
window.whenMarked = (count) => new Promise((resolve) => {
  waiting.push(() => window.marked.length >= count && resolve());
  waiting.at(-1)();
});
document.addEventListener("DOMContentLoaded", () => {
  const mark = document.querySelector("mark");
  new MutationObserver(() => {
    if (!mark.textContent || mark.textContent === window.marked.at(-1)) return;
    window.marked.push(mark.textContent);
    for (const look of waiting) look();
  }).observe(mark, { childList: true, characterData: true, subtree: true });
});
"""


def chromium_path() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    raise RuntimeError("the tests of the page need Chromium: apt-get install chromium")


@contextmanager
def browsing(*flags: str) -> Iterator[Browser]:
    expect.set_options(timeout=_TIMEOUT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium_path(), args=[*_FLAGS, *flags]
        )
        yield browser
        browser.close()


class Visit:
    """One visitor on the page; ``complaints`` holds what the console and the network had to say."""

    # What is there once the page knows its server.
    LOADED = ".voice"

    def __init__(self, browser: Browser, address: str, **options: Any) -> None:
        self.address = address
        self.complaints: list[str] = []
        self.context: BrowserContext = browser.new_context(**options)
        self.context.set_default_timeout(_TIMEOUT_MS)
        self.context.add_init_script(_WATCHER)
        self._prepare()
        self.page: Page = self.context.new_page()
        self._listen()
        self.page.goto(address)
        self.await_loaded()

    def await_loaded(self) -> None:
        """Until the page knows its server, and asks for nothing more."""
        self.page.wait_for_selector(self.LOADED)
        expect(self.at("#model")).not_to_have_text("Connecting")

    def at(self, selector: str) -> Locator:
        return self.page.locator(selector)

    def write(self, text: str) -> None:
        self.page.fill("#text", text)

    def await_phase(self, phase: str) -> None:
        self.page.wait_for_selector(f"body[data-phase={phase}]")

    def marked(self) -> list[str]:
        """The words that were highlighted, in order."""
        words: list[str] = self.page.evaluate("window.marked")
        return words

    def await_words(self, count: int) -> None:
        """Until so many words have been marked."""
        self.page.evaluate("count => window.whenMarked(count)", count)

    def save(self, button: str) -> bytes:
        """The file that a button of the page gives."""
        with self.page.expect_download() as download:
            self.page.click(button)
        return Path(download.value.path()).read_bytes()

    def picture(self, selector: str) -> NDArray[np.uint8]:
        """The pixels of an element as they are on the screen, shape [height, width, 3]."""
        return decode_png(self.at(selector).screenshot())

    def _prepare(self) -> None:
        """Before the page is opened."""

    def _listen(self) -> None:
        page, complain = self.page, self.complaints.append
        page.on("pageerror", lambda error: complain(f"error: {error}"))
        page.on("console", lambda message: complain(f"{message.type}: {message.text}"))
        page.on("requestfailed", lambda request: complain(f"failed: {request.url}"))
        page.on("request", lambda request: self._check_origin(request.url))
        page.on("websocket", lambda socket: self._check_origin(socket.url))

    def _check_origin(self, url: str) -> None:
        """A blob is the page's own."""
        parts = urlsplit(url)
        if parts.scheme != "blob" and parts.netloc != urlsplit(self.address).netloc:
            self.complaints.append(f"leaves: {url}")


@contextmanager
def visiting(browser: Browser, address: str, **options: Any) -> Iterator[Visit]:
    """A visit; ``options`` are those of a browser context."""
    visit = Visit(browser, address, **options)
    try:
        yield visit
    finally:
        visit.context.close()


def decode_png(data: bytes) -> NDArray[np.uint8]:
    """Pixels of shape [height, width, 3]."""
    with av.open(io.BytesIO(data), "r") as container:
        frame = next(container.decode(video=0))
        return frame.to_ndarray(format="rgb24").astype(np.uint8)


def share_of(picture: NDArray[np.uint8], colour: tuple[int, int, int]) -> float:
    """The share of a picture's pixels that have about this colour."""
    distance = np.abs(picture.astype(int) - np.array(colour)).max(axis=-1)
    return float((distance < 12).mean())
