"""The server's voices under ElevenLabs' names for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from engine.errors import InvalidRequestError, NotFoundError
from engine.pipeline import Voice
from server.engine_port import EnginePort
from server.json_body import quoted
from server.schemas.elevenlabs import VoiceQuery

# Clients have ids of ElevenLabs' premade voices built in as defaults. Each leads to one of OpenAI's
# names, which pipelines know as aliases, of the same gender; it will not sound like the original.
PREMADE = {
    "21m00Tcm4TlvDq8ikWAM": "nova",  # Rachel
    "9BWtsMINqrJLrRacOk9x": "coral",  # Aria
    "AZnzlk1XvdvUeBnXmlld": "shimmer",  # Domi
    "CwhRBWXzGAHq8TQ4Fs17": "cedar",  # Roger
    "EXAVITQu4vr4xnSDxMaL": "alloy",  # Sarah
    "ErXwobaYiN019PkySvjV": "echo",  # Antoni
    "FGY2WhTYpPnrIDTdsKH5": "nova",  # Laura
    "IKne3meq5aSn9XLyUdCD": "ash",  # Charlie
    "JBFqnCBsd6RMkjVDRZzb": "fable",  # George
    "MF3mGyEYCl7XYWbV9V6O": "shimmer",  # Elli
    "N2lVS1w4EtoT3dr4eOWO": "verse",  # Callum
    "SAz9YHcvj6GT2YYXdXww": "ballad",  # River
    "TX3LPaxmHKxFdv7VOQHJ": "ash",  # Liam
    "TxGEqnHWrfWFTfGW9XjX": "echo",  # Josh
    "VR6AewLTigWG4xSOukaG": "onyx",  # Arnold
    "XB0fDUnXU5powFXDhCwa": "coral",  # Charlotte
    "Xb7hH8MSUJpSbSDYk0k2": "sage",  # Alice
    "XrExE9yKIg1WjnnlVkGX": "sage",  # Matilda
    "bIHbv24MWmeRgasZH58o": "cedar",  # Will
    "cgSgspJ2msm6clMCkdW9": "nova",  # Jessica
    "cjVigY5qzO86Huf0OWal": "echo",  # Eric
    "hpp4J3VqNfWAUOO0d1Us": "alloy",  # Bella
    "iP95p4xoKVk53GoZ742B": "verse",  # Chris
    "nPczCjzI2devNBz1zQrb": "onyx",  # Brian
    "onwK4e9ZLuTAKqWW03F9": "fable",  # Daniel
    "pFZP5JQG7iQjIQuC4Bku": "marin",  # Lily
    "pNInz6obpgDQGcFmaJgB": "onyx",  # Adam
    "pqHfZKP75CvOlQylNhV4": "cedar",  # Bill
    "yoZ06aMxZJJ28mfd3POQ": "ash",  # Sam
}
_CATEGORY = "premade"


def find_voice(voice_id: str, engine: EnginePort) -> Voice:
    """The voice of that id, alias or premade id. Raises ``NotFoundError``."""
    try:
        return engine.find_voice(PREMADE.get(voice_id, voice_id))
    except InvalidRequestError:
        known = ", ".join(voice.id for voice in engine.voices)
        raise NotFoundError(
            f"a voice with voice_id {quoted(voice_id)} does not exist; known: {known}",
            param="voice_id",
            code="voice_not_found",
        ) from None


def describe_voice(voice: Voice) -> dict[str, Any]:
    """A voice in ElevenLabs' shape: what it requires, and what this server knows."""
    return {
        "voice_id": voice.id,
        "name": voice.name,
        "category": _CATEGORY,
        "description": voice.description,
        "labels": {"language": voice.language, "gender": voice.gender},
        "samples": None,
        "settings": None,
        "preview_url": None,
        "fine_tuning": None,
        "sharing": None,
        "available_for_tiers": [],
        "high_quality_base_model_ids": [],
        "verified_languages": [],
    }


def search_voices(voices: Iterable[Voice], query: VoiceQuery, ids: Sequence[str]) -> list[Voice]:
    """Those that a query finds, among ``ids`` if there are any. All are premade ones."""
    if query.category not in (None, _CATEGORY):
        return []
    found = [voice for voice in voices if _matches(voice, query) and (not ids or voice.id in ids)]
    if query.sort == "name":
        found.sort(key=lambda voice: voice.name.casefold())
    return found[::-1] if query.sort_direction == "desc" else found


def _matches(voice: Voice, query: VoiceQuery) -> bool:
    words = (query.search or "").casefold().split()
    language = (query.language or "").casefold()
    return (
        query.gender in (None, voice.gender)
        and voice.language.casefold().startswith(language)
        and all(word in _searched(voice) for word in words)
    )


def _searched(voice: Voice) -> str:
    fields = (voice.id, voice.name, voice.description, voice.language, voice.gender)
    return " ".join((*fields, *voice.aliases)).casefold()
