"""How audio, its words and its unit's bounds become messages."""

from __future__ import annotations

import base64
from itertools import pairwise

from server.sessions.effects import SendAudio
from server.sessions.spoken import WordTime
from tests.server.sessions.driving import configured, events, piece, say, types

WORDS = [WordTime(100, 150, 0, 5), WordTime(150, 180, 6, 9)]


def test_words_come_before_their_audio() -> None:
    session = configured(
        split_granularity="sentence", word_timestamps=True, audio_transport="binary"
    )
    say(session, "input.text", text="Hello you.")
    session.take_audio(0, piece(num_samples=90, opens=True, ends=True), 0.0)
    held = session.take_audio(0, piece(b"", 100, (0, 10), WORDS, opens=True), 0.0)
    sent = session.take_audio(0, piece(b"abcd", 20, (0, 10), ends=True), 0.0)

    assert types(held) == ["audio.start"]
    assert types(sent) == ["audio.words", "binary", "audio.done"]
    assert events(sent)[0]["words"] == [
        {"word": "Hello", "start_ms": 10, "end_ms": 60, "start_char": 0, "end_char": 5},
        {"word": "you", "start_ms": 60, "end_ms": 90, "start_char": 6, "end_char": 9},
    ]


def test_json_audio_carries_words_and_ends_with_all_of_them() -> None:
    session = configured(split_granularity="sentence", word_timestamps=True, audio_transport="json")
    say(session, "input.text", text="Hello you.")
    effects = [
        *session.take_audio(0, piece(b"abcd", 150, (0, 10), WORDS, opens=True), 0.0),
        *session.take_audio(0, piece(b"ef", 50, (0, 10), ends=True), 0.0),
    ]

    start, first, second, last, done = events(effects)
    assert start["word_timestamps"] is True
    assert start["decoder_delay_ms"] == 0
    assert (first["chunk_id"], first["chunk_start_ms"], first["chunk_end_ms"]) == (0, 0, 150)
    assert (second["chunk_id"], second["chunk_start_ms"], second["chunk_end_ms"]) == (1, 150, 200)
    assert [base64.b64decode(e["audio_b64"]) for e in (first, second, last)] == [
        b"abcd",
        b"ef",
        b"",
    ]
    assert first["words"] == last["timestamps"]
    assert "words" not in second
    assert first["timestamps"] is second["timestamps"] is None
    assert done["total_bytes"] == 6


def test_a_long_file_goes_in_several_events_that_share_its_time() -> None:
    session = configured(audio_transport="json")
    say(session, "input.text", text="Hello.")
    data = bytes(range(256)) * 2000
    chunks = events(session.take_audio(0, piece(data, 1000, opens=True), 0.0))[1:]

    assert b"".join(base64.b64decode(chunk["audio_b64"]) for chunk in chunks) == data
    assert max(len(chunk["audio_b64"]) for chunk in chunks) <= 256 * 1024
    bounds = [(chunk["chunk_start_ms"], chunk["chunk_end_ms"]) for chunk in chunks]
    assert bounds[0][0] == 0
    assert bounds[-1][1] == 1000
    assert all(a[1] == b[0] for a, b in pairwise(bounds))


def test_a_unit_that_was_not_announced_is_before_its_audio() -> None:
    session = configured(split_granularity="sentence")
    say(session, "input.text", text="Hello.")
    effects = session.take_audio(0, piece(b"ab"), 0.0)

    assert types(effects) == ["audio.start", "binary"]
    assert effects[-1] == SendAudio(b"ab")
