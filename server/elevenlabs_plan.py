"""From ElevenLabs' requests to the plans that the server speaks by."""

from __future__ import annotations

from dataclasses import replace

from engine.errors import InvalidRequestError, NotFoundError
from server.catalog import ModelCatalog
from server.elevenlabs_formats import OutputFormat
from server.elevenlabs_voices import find_voice
from server.engine_port import EnginePort
from server.schemas.elevenlabs import ElevenLabsSpeech
from server.schemas.speech import SpeechRequest
from server.speech_plan import SIZED_FORMATS, Delivery, SpeechPlan, plan_speech

# ElevenLabs' own models, of which there are new ones every few months.
_ELEVENLABS_MODEL = "eleven_"
# Our fields under ElevenLabs' names.
_NAMES = {"input": "text", "voice": "voice_id", "language": "language_code", "model": "model_id"}


def plan_elevenlabs(
    voice_id: str,
    body: ElevenLabsSpeech,
    output: OutputFormat,
    engine: EnginePort,
    catalog: ModelCatalog,
    max_input_chars: int | None,
) -> SpeechPlan:
    """The plan for a request. Raises ``InvalidRequestError`` or ``NotFoundError``."""
    check_model(body.model_id, catalog)
    request = SpeechRequest(
        input=body.text,
        voice=find_voice(voice_id, engine).id,
        response_format=output.fmt,
        sample_rate=output.sample_rate,
        speed=None if body.voice_settings is None else body.voice_settings.speed,
        seed=body.seed,
        language=body.language_code,
    )
    try:
        plan = plan_speech(request, engine, catalog, max_input_chars)
    except InvalidRequestError as error:
        raise renamed(error) from error
    is_sized = output.fmt in SIZED_FORMATS
    return replace(
        plan,
        delivery=Delivery.BUFFER_IF_SHORT if is_sized else Delivery.STREAM,
        bit_rate=output.bit_rate,
        law=output.law,
    )


def check_model(model_id: str | None, catalog: ModelCatalog) -> None:
    """Raise ``NotFoundError`` for a model that is neither ElevenLabs' nor this server's."""
    if model_id is None or model_id.startswith(_ELEVENLABS_MODEL):
        return
    try:
        catalog.check(model_id)
    except NotFoundError as error:
        raise NotFoundError(error.message, param="model_id", code=error.code) from error


def renamed(error: InvalidRequestError) -> InvalidRequestError:
    """The error, with the field's name in ElevenLabs' API."""
    return InvalidRequestError(
        error.message, param=_NAMES.get(error.param or "", error.param), code=error.code
    )
