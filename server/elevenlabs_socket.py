"""The shell around an ElevenLabs session: the speech socket's, with contexts side by side."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from dataclasses import replace

from starlette.types import Receive, Send

from engine.errors import InvalidRequestError
from engine.outputs import OmniRequestOutput
from server.catalog import ModelCatalog
from server.context import RequestContext
from server.elevenlabs_formats import DEFAULT_FORMAT, SOCKET_FORMATS
from server.elevenlabs_plan import check_model, renamed
from server.elevenlabs_voices import find_voice
from server.encoding import EncoderPool
from server.json_body import validate
from server.schemas.elevenlabs_socket import ElevenLabsSocketQuery
from server.schemas.speech_socket import SessionConfig
from server.sessions.elevenlabs_context import NO_SPAN
from server.sessions.elevenlabs_session import ElevenLabsSession, Manner
from server.sessions.speech_session import State
from server.sessions.spoken import read_sentence, read_words
from server.sessions.utterance import AudioPiece
from server.speech_plan import SessionPlan, plan_session
from server.speech_socket import SpeechSocket
from server.speech_stream import SpeechService
from server.speech_units import PieceCoder


class ElevenLabsSocket(SpeechSocket):
    """One connection that has been accepted."""

    in_turn = False

    def __init__(
        self,
        service: SpeechService,
        context: RequestContext,
        receive: Receive,
        send: Send,
        manner: Manner,
        inactivity_s: float,
    ) -> None:
        super().__init__(service, context, receive, send, ElevenLabsSession(manner))
        self._inactivity_s = inactivity_s

    def _patience_s(self) -> float:
        return super()._patience_s() if self._session.state is State.NEW else self._inactivity_s

    def _open_coder(self, plan: SessionPlan) -> PieceCoder:
        return ContextCoder(self._service.encoders, plan)


class ContextCoder:
    """Codes a context as one file, piece by piece; each piece says of which sentence it is."""

    def __init__(self, encoders: EncoderPool, plan: SessionPlan) -> None:
        self._encoder = encoders.open(plan)
        self._is_empty = True

    def warn(self, warnings: Iterable[str]) -> None:
        """ElevenLabs' messages have no place for them."""

    async def take(self, output: OmniRequestOutput) -> AsyncGenerator[AudioPiece, None]:
        assert output.audio is not None
        self._is_empty = False
        data = await self._encoder.encode(output.audio.cast("B"))
        first, last, ends = read_sentence(output.payload.get("sentence")) or (*NO_SPAN, False)
        words = read_words(output.payload.get("words", ()))
        yield AudioPiece(data, output.num_samples, words, (first, last), opens=False, ends=ends)

    async def finish(self) -> AsyncGenerator[AudioPiece, None]:
        if not self._is_empty:
            data = await self._encoder.close()
            yield AudioPiece(data, 0, [], NO_SPAN, opens=False, ends=False)

    def discard(self) -> None:
        self._encoder.discard()


def read_manner(
    query: Mapping[str, str],
    voice_id: str,
    service: SpeechService,
    catalog: ModelCatalog,
    *,
    is_multi: bool,
    unlock: Callable[[str], bool] | None,
) -> tuple[Manner, float]:
    """What an address asks for, and how many seconds its client may be quiet.

    Raises ``InvalidRequestError`` or ``NotFoundError``.
    """
    asked = validate(dict(query), ElevenLabsSocketQuery)
    settings = service.settings
    manner = Manner(
        plan=_plan(asked, voice_id, service, catalog),
        is_multi=is_multi,
        auto_mode=asked.auto_mode,
        sync_alignment=asked.sync_alignment,
        unlock=unlock,
        max_context_chars=settings.max_input_chars or settings.max_body_bytes,
    )
    return manner, float(asked.inactivity_timeout)


def _plan(
    asked: ElevenLabsSocketQuery, voice_id: str, service: SpeechService, catalog: ModelCatalog
) -> SessionPlan:
    check_model(asked.model_id, catalog)
    output = SOCKET_FORMATS[asked.output_format or DEFAULT_FORMAT]
    config = SessionConfig(
        voice=find_voice(voice_id, service.engine).id,
        response_format=output.fmt,
        sample_rate=output.sample_rate,
        language=asked.language_code,
        seed=asked.seed,
        stream_audio=True,
        word_timestamps=True,
        audio_transport="json",
    )
    try:
        plan = plan_session(config, service.engine, catalog)
    except InvalidRequestError as error:
        raise renamed(error) from error
    return replace(plan, bit_rate=output.bit_rate, law=output.law)
