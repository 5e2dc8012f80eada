"""Reading Unicode: every character is read, transliterated, or skipped with a warning."""

import pytest

from worker.models.hibari.text.clean import clean_text

CASES = [
    ("café", "cafe"),
    ("café and naïve", "cafe and naive"),
    ("My résumé, please", "My résumé, please"),
    ("Łódź, Straße, Ångström, Đặng", "Lodz, Strasse, Angstrom, Dang"),
    ("œuvre and Æsop", "oeuvre and Aesop"),
    ("Hello 世界 friends", "Hello friends"),
    ("Привет мир", "Privet mir"),
    ("Ελλάδα", "Ellada"),
    ("안녕 friends", "annyeong friends"),
    ("שלום friends", "friends"),
    ("مرحبا friends", "friends"),
    ("नमस्ते friends", "friends"),
    ("こんにちは friends", "friends"),
    ("ไทย friends", "friends"),
    ("😊", ""),
    ("I love it 😊👍🏽!", "I love it!"),
    ("👨\u200d👩\u200d👧 family", "family"),
    ("🇩🇪 flag", "flag"),
    ("wor\u200bld and \ufeffBOM and e\xadx", "world and BOM and ex"),
    ("a\x00b\x07c", "abc"),
    ("bidi \u202eabc\u202c end", "bidi abc end"),
    ("heart ♥️ here", "heart here"),
    ("lone \ud800 surrogate", "lone surrogate"),
    ("pair 😀 ok", "pair ok"),
    ("“curly” ‘single’ it’s", "\"curly\" 'single' it's"),
    ("«guillemets» „low“", '"guillemets" "low"'),
    ("en–dash", "en-dash"),
    ("pages 3–5", "pages 3 to 5"),
    ("em—dash", "em — dash"),
    ("wait…", "wait…"),
    ("a\xa0b\u2009c\u3000d", "a b c d"),
    ("line\u2028next", "line next"),
    ("𝐁𝐨𝐥𝐝 and ﬁne", "Bold and fine"),
    ("Ｆｕｌｌ\u3000ｗｉｄｔｈ！", "Full width!"),
    ("① and Ⅳ", "1 and IV"),
    ("٣ and ４２", "3 and 42"),
    ("α and π", "alpha and pi"),
    ("5 μm and 10 kΩ", "5 micrometers and 10 kiloohms"),
    ("H₂O", "H2O"),
    ("全部。", ""),
    ("¿Qué?", "Que?"),
    ("中文，标点。English works", "English works"),
    ("™ and ®, © 2024", "and, copyright 2024"),
    ("★ rated", "rated"),
    ("→ next", "to next"),
    ("A → B", "A to B"),
    ("x ≤ 5 and y ≥ 3", "x at most 5 and y at least 3"),
    ("a ≠ b", "a is not b"),
    ("∞ loop", "infinity loop"),
    ("§ 5", "section 5"),
    ("5 ± 2", "5 plus or minus 2"),
    ("3 × 4 ÷ 2", "3 times 4 divided by 2"),
    ("\ue000 private", "private"),
    ("Kokoro 是一系列体积虽小但功能强大的 TTS 模型。", "Kokoro TTS."),
    ("́", ""),
    ("ﷺ", ""),
    ("Ⓐ", "A"),
    ("naïveté", "naivete"),
    ("ʼn Hawaiʻi", "'n Hawai'i"),
    ("‘90s", "'90s"),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_characters_are_read_or_skipped(text: str, expected: str) -> None:
    assert clean_text(text).text == expected


WARNED = [
    ("Hello 世界 friends", "skipped 2 characters of Han script"),
    ("Привет", "transliterated 6 characters of Cyrillic script"),
    ("안녕", "transliterated 2 characters of Hangul script"),
    ("שלום", "skipped 4 characters of Hebrew script"),
    ("नमस्ते", "skipped 4 characters of Devanagari script"),
    ("hi 😊", "skipped 1 emoji"),
    ("a \ud800 b", "skipped 1 unreadable character"),
    ("a \U000f0000\ue000 b", "skipped 2 unreadable characters"),
    ("a ⍼ b", "skipped 1 symbol"),
]


@pytest.mark.parametrize(("text", "warning"), WARNED)
def test_what_is_skipped_or_transliterated_is_told(text: str, warning: str) -> None:
    assert clean_text(text).warnings == (warning,)


@pytest.mark.parametrize("text", ["café", "wor\u200bld", "“quotes”", "5 € – ok…", "tab\there"])
def test_nothing_is_told_when_nothing_is_lost(text: str) -> None:
    assert clean_text(text).warnings == ()


def test_typographic_text_equals_its_ascii_form() -> None:
    typographic = "“It’s here” — she said…"
    assert clean_text(typographic).text == clean_text('"It\'s here" -- she said...').text
