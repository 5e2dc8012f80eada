"""Web addresses, e-mail addresses, file names and paths, read the way people say them."""

import re

from worker.models.hibari.text.draft import Draft
from worker.models.hibari.text.notices import Notices

# Longer ones lose their tail: nobody follows a hundred spoken characters of query string.
MAX_ADDRESS_CHARS = 100

_TLDS = (
    "com|org|net|edu|gov|mil|int|io|co|uk|de|fr|nl|es|eu|ch|at|jp|cn|ru|br|info|biz|us|ca|au|tv|me|"
    "ly|ai|dev|app|xyz|gg|be|se|dk|pl|cz|nz|ie|tech|online|site|blog|cloud|example|test"
)
# One attempt a word (look-behind), possessive or bounded repeats: linear.
_EMAIL = re.compile(
    r"(?<![\w.+%-])(?:mailto:)?([\w+%-]{1,64}+(?:\.[\w+%-]{1,64}+){0,9}+)"
    r"@((?:[A-Za-z0-9-]{1,63}+\.){1,9}[A-Za-z]{2,24})\b",
    re.IGNORECASE,
)
_URL = re.compile(r"(?<![\w.])(?:(?:https?|ftps?|wss?)://|www\.)([^\s<>\"]++)", re.IGNORECASE)
_INNER_DOT = re.compile(r"\.(?=\w)")
_DOMAIN = re.compile(
    rf"(?<![\w.@/-])((?:[A-Za-z0-9-]{{1,63}}+\.){{1,9}}(?i:{_TLDS}))(?![\w@-]|\.\w)"
    r"((?::\d{2,5})?(?:/[^\s<>\"]*+)?)"
)
_TRAILING = ".,;:!?'\"…)]*_~>—–"
_SCHEME = re.compile(r"^(?:[A-Za-z]+://)?(?:www\.)?", re.IGNORECASE)

_SAID_AS_WORDS = "json yaml toml zip java go gif doc ini log bat bin conf lock vue jar"
_SPELLED = (
    "py js ts md css csv pdf png jpg mp3 mp4 mkv cpp rs sh c h cs rb php xml html yml gz exe tsv "
    "svg xls ppt so dll tar sql env cfg db"
)
_EXTENSIONS = {
    **{word: word for word in _SAID_AS_WORDS.split()},
    **{letters: " ".join(letters.upper()) for letters in _SPELLED.split()},
    "txt": "text",
    "jpeg": "J peg",
    "wav": "wave",
    "docx": "doc X",
    "jsx": "J S X",
}
_FILE = re.compile(
    rf"(?<![\w.])([A-Za-z0-9_-]{{1,60}}+)"
    rf"((?:\.(?:{'|'.join(map(re.escape, _EXTENSIONS))})){{1,2}})(?!\w|\.\w)"
)
_DRIVE = re.compile(r"\b([A-Za-z]):\\(?=\w)")
_COMMENT = re.compile(r"(?<!\S)/+(?!\S)")
_ROOT = re.compile(r"(?<![\w/.<~)])(~?)/(?=[A-Za-z0-9_.-]+(?:/|\b))")

_CHARS = {
    ".": " dot ", "/": " slash ", "-": " dash ", "_": " underscore ", "?": " question mark ",
    "=": " equals ", "&": " and ", "#": " hash ", ":": " colon ", "@": " at ", "+": " plus ",
    "~": " tilde ", "%": " percent ",
}  # fmt: skip
_SPECIAL = re.compile(r"%[0-9A-Fa-f]{2}|([^A-Za-z0-9])\1*|(?<![A-Za-z0-9])a(?![A-Za-z0-9])")
_SPELLED_DOMAIN = re.compile(
    r"(?<=\.)(?:uk|io|de|fr|nl|eu|ch|jp|cn|ru|br|us|ca|au|tv|ly|ai|gg|cz|nz)(?![\w])", re.I
)
# A bare "a" would be read as the article.
LETTER_A = "eigh"


def read_addresses(draft: Draft, notices: Notices) -> None:
    """Spell out the separators of addresses, file names and paths."""
    text = draft.text
    if "://" in text or "www." in text.lower():
        draft.sub(_URL, lambda m: _read_url(m, notices))
    if "@" in text:
        draft.sub(_EMAIL, lambda m: _say(m.group(1)) + " at " + _say_host(m.group(2)))
    if _INNER_DOT.search(text):
        draft.sub(_DOMAIN, lambda m: _read_url(m, notices))
        draft.sub(_FILE, _read_file)
    if "/" in text or "\\" in text:
        draft.sub(_DRIVE, lambda m: f"{m.group(1).upper()} drive, ")
        draft.sub(_COMMENT, "")
        draft.sub(_ROOT, lambda m: " tilde slash " if m.group(1) else " slash ")


def _read_url(match: re.Match[str], notices: Notices) -> str:
    whole = match.group()
    address = whole.rstrip(_TRAILING)
    tail = whole[len(address) :]
    if tail.startswith(")") and "(" in address:
        tail = tail[1:]
    address = _SCHEME.sub("", address)
    address = address.split("@")[-1] if "@" in address.split("/")[0] else address
    if len(address) > MAX_ADDRESS_CHARS:
        address = address[:MAX_ADDRESS_CHARS]
        notices.add("shortened", "long link{}")
    host, slash, path = address.partition("/")
    path = path.rstrip("/")
    return _say_host(host) + (" " + _say(slash + path) if path else "") + tail


def _say_host(host: str) -> str:
    host = _SPELLED_DOMAIN.sub(lambda m: " ".join(m.group().upper()), host)
    return _say(host)


def _say(address: str) -> str:
    return " ".join(_SPECIAL.sub(_say_character, address).split())


def _say_character(match: re.Match[str]) -> str:
    char = match.group()
    if len(char) == 3 and char[0] == "%":
        return " "
    if char == "a":
        return LETTER_A
    return _CHARS.get(char[0], " ")


def _read_file(match: re.Match[str]) -> str:
    name = match.group(1).replace("-", " ").replace("_", " ")
    for extension in match.group(2).split(".")[1:]:
        name += " dot " + _EXTENSIONS[extension]
    return name
