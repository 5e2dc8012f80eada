"""Phonemes: bounded chunks of the model's ids for any text, with the words they say."""

import json
import threading
from itertools import pairwise
from pathlib import Path

import hibari
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.worker.models.hibari.text.strategies import PROSE, TEXTS
from worker.models.hibari.text.clean import clean_text
from worker.models.hibari.text.draft import Span
from worker.models.hibari.text.phonemes import MAX_IDS, PAD_ID, PhonemeChunk, Phonemizer
from worker.models.hibari.text.pronunciations import GB, US
from worker.models.hibari.text.sentences import Sentence, split_sentences
from worker.models.hibari.text.symbols import ACCENTED_WORDS

pytestmark = pytest.mark.model

VOCAB: dict[str, int] = json.loads(
    (Path(hibari.__file__).parent / "assets" / "vocab.json").read_text(encoding="utf-8")
)
PHONEMIZER = Phonemizer()


def _chunks(text: str, phonemizer: Phonemizer = PHONEMIZER) -> list[PhonemeChunk]:
    return [c for s in split_sentences(text) for c in phonemizer.chunks(s)]


def _said(text: str) -> str:
    return " | ".join(c.phonemes for c in _chunks(clean_text(text).text))


def _check(chunk: PhonemeChunk, clean: str) -> None:
    assert 3 <= len(chunk.ids) <= MAX_IDS
    assert chunk.ids.dtype == np.int64
    assert chunk.ids[0] == chunk.ids[-1] == PAD_ID
    assert chunk.ids[1:-1].tolist() == [VOCAB[c] for c in chunk.phonemes]
    assert chunk.words[0].start == 1
    assert chunk.words[-1].end == len(chunk.ids) - 1
    for one, two in pairwise(chunk.words):
        assert one.end + 1 == two.start
        assert one.text.start <= two.text.start
    for word in chunk.words:
        assert word.start < word.end
        assert chunk.span.start <= word.text.start < word.text.end <= chunk.span.end
    assert clean[chunk.span.start : chunk.span.end].strip()


@settings(max_examples=250, deadline=None)
@given(TEXTS)
def test_any_clean_text_gives_sound_chunks_and_only_speakable_ones_any(text: str) -> None:
    clean = clean_text(text)
    chunks = _chunks(clean.text)
    for chunk in chunks:
        _check(chunk, clean.text)
    assert bool(chunks) == clean.speakable


@settings(max_examples=250, deadline=None)
@given(TEXTS)
def test_text_that_nobody_cleaned_does_no_harm_either(text: str) -> None:
    for chunk in _chunks(text):
        _check(chunk, text)


@settings(max_examples=50, deadline=None)
@given(PROSE)
def test_nothing_is_skipped_in_prose(text: str) -> None:
    skipped: list[str] = []
    for sentence in split_sentences(text):
        list(PHONEMIZER.chunks(sentence, skipped.append))
    assert skipped == []


READINGS = [
    ("café", "kæfˈA"),
    ("my résumé", "mI ɹˈɛzəmˌA"),
    ("a.com/a", "ˈA dˈɑt kˈɑm slˈæʃ ˈA"),
    ("3,497", "θɹˈi θˈWzᵊnd fˈɔɹ hˈʌndɹəd nˈIndi sˈɛvən"),
    ("3497 cats", "θɹˈi θˈWzᵊnd fˈɔɹ hˈʌndɹəd nˈIndi sˈɛvən kˈæts"),
    ("in 1999", "ɪn nˌIntˈin nˈIndi nˈIn"),
    ("$5.50", "fˈIv dˈɑləɹz ænd fˈɪfti sˈɛnts"),
    ("wor\u200bld", "wˈɜɹld"),
    ("[x](/fəʊ/)", "ˈɛks"),
    ("5 p.m.", "fˈIv pˌiˈɛm."),
    ("C#", "sˈi ʃˈɑɹp"),
    ("rise to 20 °C", "ɹˈIz tə twˈɛnti dəɡɹˈiz sˈɛlsiəs"),
    ("2024-03-05", "mˈɑɹʧ fˈɪfθ, twˈɛnti twˈɛnti fˈɔɹ"),
    ("192.168.0.1", "wˈʌn nˈIn tˈu dˈɑt wˈʌn sˈɪks ˈAt dˈɑt zˈɪɹO dˈɑt wˈʌn"),
]


@pytest.mark.parametrize(("text", "phonemes"), READINGS)
def test_readings(text: str, phonemes: str) -> None:
    assert _said(text) == phonemes


HARD = [
    "1" * 40, "1" * 400, "a" * 2000, "(" * 600, ".,;" * 200, "[x](/fəʊ/)", "ab.cd" * 120, "'" * 600,
    "½²™", "a-" * 300, "\x00", "\ud800", "世界", "😊", "word " * 120, "1,2" * 150,
]  # fmt: skip


@pytest.mark.parametrize("text", HARD)
def test_a_raw_sentence_that_breaks_the_library_is_survived(text: str) -> None:
    for chunk in PHONEMIZER.chunks(Sentence(text, Span(0, len(text)), False)):
        _check(chunk, text)


def test_a_word_the_library_fails_on_is_skipped_alone_and_told() -> None:
    text = f"before {'1' * 60} after"
    skipped: list[str] = []
    chunks = list(PHONEMIZER.chunks(Sentence(text, Span(0, len(text)), False), skipped.append))
    assert [c.phonemes for c in chunks] == ["bəfˈɔɹ ˈæftəɹ"]
    assert len(skipped) == 1


def test_bare_punctuation_makes_no_chunk() -> None:
    for text in ("...!?,;:", "—", '"', "()", "-", ". . ."):
        assert list(PHONEMIZER.chunks(Sentence(text, Span(0, len(text)), False))) == []


def test_words_lead_to_their_place_in_the_clean_text() -> None:
    text = "On 2024-03-05 we ran 10 km."
    (chunk,) = _chunks(text)
    said = {
        chunk.phonemes[w.start - 1 : w.end - 1]: text[w.text.start : w.text.end]
        for w in chunk.words
    }
    assert said["mˈɑɹʧ"] == "2024-03-05"
    assert said["ɹˈæn"] == "ran"
    assert said["kəlˈɑməTəɹz."] == "km."


def test_a_long_sentence_is_cut_at_its_clauses() -> None:
    text = "It was the best of times, it was the worst of times, " * 8
    chunks = _chunks(text.strip(", ") + ".")
    assert len(chunks) > 1
    assert all(c.phonemes[-1] in ",." for c in chunks)


def test_without_punctuation_chunks_share_the_words_evenly() -> None:
    sizes = [len(c.ids) for c in _chunks("word " * 800)]
    assert max(sizes) <= MAX_IDS
    assert min(sizes) > MAX_IDS // 3
    assert sum(len(c.words) for c in _chunks("word " * 800)) == 800


def test_no_word_is_cut_in_two() -> None:
    words = [c.phonemes.split(" ") for c in _chunks("banana " * 150)]
    assert {w for chunk in words for w in chunk} == {"bənˈænə"}


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(["hello there", "xqzt wug", "3.5 km"]))
def test_readings_do_not_depend_on_what_was_read_before(text: str) -> None:
    fresh = Phonemizer()
    assert [c.phonemes for c in _chunks(text, fresh)] == [c.phonemes for c in _chunks(text)]


def test_british_readings_differ() -> None:
    british = Phonemizer(british=True)
    british.warm_up()
    assert _chunks("I can't dance.", british)[0].phonemes != _chunks("I can't dance.")[0].phonemes


def test_threads_share_one_phonemizer() -> None:
    shared, said = Phonemizer(), []
    texts = [f"Sentence number {i}, with xqzt{chr(97 + i)}." for i in range(8)]

    def read(text: str) -> None:
        said.append((text, [c.phonemes for c in _chunks(text, shared)]))

    threads = [threading.Thread(target=read, args=(t,)) for t in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert dict(said) == {t: [c.phonemes for c in _chunks(t)] for t in texts}


def test_every_kept_accent_has_a_reading_in_the_vocabulary() -> None:
    for readings in (US, GB):
        assert set(readings) >= ACCENTED_WORDS
        assert all(c in VOCAB for reading in readings.values() for c in reading)
