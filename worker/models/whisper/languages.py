"""Whisper's languages: codes (ISO 639-1, where there is one) and English names."""

from __future__ import annotations

_NAMES = """
af afrikaans | am amharic | ar arabic | as assamese | az azerbaijani | ba bashkir | be belarusian
bg bulgarian | bn bengali | bo tibetan | br breton | bs bosnian | ca catalan | cs czech | cy welsh
da danish | de german | el greek | en english | es spanish | et estonian | eu basque | fa persian
fi finnish | fo faroese | fr french | gl galician | gu gujarati | ha hausa | haw hawaiian
he hebrew | hi hindi | hr croatian | ht haitian creole | hu hungarian | hy armenian | id indonesian
is icelandic | it italian | ja japanese | jw javanese | ka georgian | kk kazakh | km khmer
kn kannada | ko korean | la latin | lb luxembourgish | ln lingala | lo lao | lt lithuanian
lv latvian | mg malagasy | mi maori | mk macedonian | ml malayalam | mn mongolian | mr marathi
ms malay | mt maltese | my myanmar | ne nepali | nl dutch | nn nynorsk | no norwegian | oc occitan
pa punjabi | pl polish | ps pashto | pt portuguese | ro romanian | ru russian | sa sanskrit
sd sindhi | si sinhala | sk slovak | sl slovenian | sn shona | so somali | sq albanian | sr serbian
su sundanese | sv swedish | sw swahili | ta tamil | te telugu | tg tajik | th thai | tk turkmen
tl tagalog | tr turkish | tt tatar | uk ukrainian | ur urdu | uz uzbek | vi vietnamese | yi yiddish
yo yoruba | zh chinese | yue cantonese
"""
# Codes that clients use for a language which Whisper knows by another one.
_OTHER_CODES = {"jv": "jw", "nb": "no", "iw": "he", "fil": "tl"}

LANGUAGES: dict[str, str] = {
    code: name
    for entry in _NAMES.strip().replace("\n", " | ").split(" | ")
    for code, _, name in [entry.partition(" ")]
}
_CODES = {name: code for code, name in LANGUAGES.items()}


def find_language(text: str) -> str | None:
    """The code for a code, a tag such as ``en-US`` or a name; None if there is none."""
    wanted = text.strip().lower().replace("_", "-")
    if wanted in _CODES:
        return _CODES[wanted]
    code = wanted.partition("-")[0]
    code = _OTHER_CODES.get(code, code)
    return code if code in LANGUAGES else None
