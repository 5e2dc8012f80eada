"""Sentences to learn from: the prose in a few Debian packages.

Only how the teacher speaks them is learned; no text goes into the weights. ``NOTICE`` names the
packages and their licences.
"""

from __future__ import annotations

import gzip
import random
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from worker.models.hibari.text.sentences import split_sentences

PACKAGES = (
    "debian-faq",
    "debian-reference-en",
    "developers-reference",
    "dict-devil",
    "dict-jargon",
    "doc-debian",
    "fortunes",
    "fortunes-min",
    "python3.11-doc",
)
MIN_WORDS, MAX_WORDS = 2, 45

_SUFFIXES = (".u8", ".dict.dz", ".rst.txt", "debian-reference.en.txt.gz", "debian-faq.en.txt.gz")
_PARAGRAPH = re.compile(r"\n\s*\n|\n%\n")
# reStructuredText: a role or literal keeps its text, a directive or literal block is dropped.
_ROLE = re.compile(r":[\w:+-]+:`[~!]?([^`<]*?)\s*(?:<[^`]*>)?`|``?([^`]*)``?_{0,2}")
_EMPHASIS = re.compile(r"[*_{}]+")
_WORD = re.compile(r"[A-Za-z]+(?:['’][a-z]+)?")
_ALLOWED = re.compile(r"[A-Z\"'][A-Za-z0-9 ,.;:!?'\"’“”()—–%$-]*[.!?][\"'”’)]?")
_CODE = re.compile(r"\w\(\)|[a-z][A-Z]|\w\.\w{2,}|\d{5,}|--| {3,}|\b[A-Z]{6,}\b")


def fetch(folder: Path) -> None:
    """Download the packages with apt and unpack them into ``folder``/unpacked."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["apt-get", "download", *PACKAGES], cwd=folder, check=True)  # noqa: S603, S607
    for package in sorted(folder.glob("*.deb")):
        target = str(folder / "unpacked")
        subprocess.run(["dpkg", "-x", str(package), target], check=True)  # noqa: S603, S607


def read_sentences(folder: Path, seed: int) -> list[str]:
    """Every clean sentence in the text files under ``folder``, once, in an order of the seed."""
    found = {
        sentence
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name.endswith(_SUFFIXES)
        for sentence in _sentences(_text(path))
    }
    ordered = sorted(found)
    random.Random(seed).shuffle(ordered)  # noqa: S311
    return ordered


def _text(path: Path) -> str:
    data = path.read_bytes()
    if path.suffix in (".dz", ".gz"):
        data = gzip.decompress(data)
    return data.decode("utf-8", "ignore")


def _sentences(text: str) -> Iterator[str]:
    for paragraph in _PARAGRAPH.split(text):
        if "::" in paragraph or ">>>" in paragraph or "\n.. " in paragraph:
            continue
        prose = _EMPHASIS.sub("", _ROLE.sub(lambda m: m[1] or m[2] or "", paragraph))
        for sentence in split_sentences(" ".join(prose.split())):
            line = sentence.text.strip()
            if is_clean(line):
                yield line


def is_clean(line: str) -> bool:
    """Whether a line is one English sentence without code, in 2 to 45 words."""
    if not _ALLOWED.fullmatch(line) or _CODE.search(line):
        return False
    num_words = len(line.split())
    return MIN_WORDS <= num_words <= MAX_WORDS and len(_WORD.findall(line)) >= 0.8 * num_words
