"""The request of ``POST /v1/audio/speech``."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from server.audio.formats import MAX_SAMPLE_RATE, MIN_SAMPLE_RATE, AudioFormat
from server.json_body import RequestModel

MIN_SPEED, MAX_SPEED = 0.25, 4.0
# OpenAI's limit for instructions; the input has none of its own.
MAX_INSTRUCTIONS_CHARS = 4096
# The longest registered language tags are shorter.
MAX_LANGUAGE_CHARS = 35
# msgspec carries the seed as a signed 64-bit integer.
MAX_SEED = 2**63 - 1
# OpenAI's bound for temperatures, and the stages' own for the rest (worker/vllm/sampling.py).
MAX_TEMPERATURE = 2.0
MAX_TOP_K = 2**31 - 1
MAX_GUIDANCE_SCALE = 100.0


class VoiceRef(BaseModel):
    """A voice by its id, in the form that OpenAI uses for custom voices."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    id: StrictStr


Temperature = Annotated[
    StrictFloat | None,
    Field(
        ge=0, le=MAX_TEMPERATURE, allow_inf_nan=False, description="0 takes the likeliest token."
    ),
]
TopP = Annotated[StrictFloat | None, Field(gt=0, le=1, allow_inf_nan=False)]
TopK = Annotated[StrictInt | None, Field(ge=0, le=MAX_TOP_K, description="0 is no limit.")]


class SpokenText(RequestModel):
    """What to say, and in which voice."""

    must_be: ClassVar[dict[str, str]] = {
        "input": "a string with at least one character that can be spoken, without NUL",
        "model": "a model name from /v1/models",
        "voice": 'a voice id from /v1/audio/voices, as a string or as {"id": "..."}',
        "instructions": f"a string of at most {MAX_INSTRUCTIONS_CHARS} characters",
        "speed": f"a number from {MIN_SPEED} to {MAX_SPEED}",
        "seed": f"an integer from 0 to {MAX_SEED}",
        "temperature": f"a number from 0 to {MAX_TEMPERATURE:g}",
        "top_p": "a number above 0 and at most 1",
        "top_k": f"an integer from 0 to {MAX_TOP_K}",
        "guidance_scale": f"a number from 1 to {MAX_GUIDANCE_SCALE:g}",
        "language": "a language tag such as 'en'",
    }

    input: Annotated[
        StrictStr,
        Field(min_length=1, pattern=r"^[^\x00]*$", description="The text to speak."),
    ]
    model: Annotated[
        StrictStr | None,
        Field(description="A name from /v1/models; without it the server's own model speaks."),
    ] = None
    voice: Annotated[
        StrictStr | VoiceRef | None,
        Field(
            description="A voice id or alias from /v1/audio/voices; OpenAI's voice names are "
            "aliases. Without it the first voice of that list speaks."
        ),
    ] = None
    instructions: Annotated[
        StrictStr | None,
        Field(
            max_length=MAX_INSTRUCTIONS_CHARS,
            description="How to speak, in English: rate, pitch and liveliness ('slowly, in a low, "
            "calm voice'). Words that mean none of these are ignored and told in the header "
            "x-voxloom-warnings.",
        ),
    ] = None
    speed: Annotated[
        StrictFloat | None,
        Field(ge=MIN_SPEED, le=MAX_SPEED, allow_inf_nan=False, description="1 if not given."),
    ] = None
    seed: Annotated[
        StrictInt | None,
        Field(
            ge=0,
            le=MAX_SEED,
            description="Equal requests with equal seeds get equal bytes; random if not given.",
        ),
    ] = None
    temperature: Annotated[
        Temperature,
        Field(description="How much a language model varies; refused where there is none."),
    ] = None
    top_p: Annotated[
        TopP,
        Field(
            description="Draw only from the likeliest tokens that have this probability together."
        ),
    ] = None
    top_k: Annotated[
        TopK, Field(description="Draw only from so many of the likeliest tokens; 0 is no limit.")
    ] = None
    guidance_scale: Annotated[
        StrictFloat | None,
        Field(
            ge=1,
            le=MAX_GUIDANCE_SCALE,
            allow_inf_nan=False,
            description="How strongly a language model follows the style of the instructions; 1 is "
            "no guidance. Refused by pipelines without a language model, like the three above.",
        ),
    ] = None
    language: Annotated[
        StrictStr | None,
        Field(max_length=MAX_LANGUAGE_CHARS, description="A BCP 47 tag; the voice's if absent."),
    ] = None


class SpeechRequest(SpokenText):
    """What to say, in which voice, and how to send it."""

    must_be: ClassVar[dict[str, str]] = SpokenText.must_be | {
        "response_format": "one of " + ", ".join(AudioFormat),
        "stream_format": "one of audio, sse",
        "stream": "true or false",
        "sample_rate": f"an integer from {MIN_SAMPLE_RATE} to {MAX_SAMPLE_RATE}",
        "timestamp_granularities": "a list of at least one 'word' and nothing else",
    }

    response_format: Annotated[
        AudioFormat | None,
        Field(description="mp3 if not given. opus is in Ogg, aac in ADTS, pcm is s16le mono."),
    ] = None
    stream_format: Annotated[
        Literal["audio", "sse"] | None,
        Field(
            description="audio: the body is the file, sent as it is made. sse: server-sent events "
            "speech.audio.delta (base64) and speech.audio.done. The usage in the last event counts "
            "one input token per four characters of input, rounded up, and one output token per "
            "50 ms of audio, rounded up; its warnings are those that came too late for the header."
        ),
    ] = None
    stream: Annotated[
        StrictBool | None,
        Field(
            description="true without a stream_format means sse. false: the answer is one complete "
            "file with a Content-Length. Neither stream nor stream_format: wav and flac are "
            "complete files if they are short, everything else is sent as it is made."
        ),
    ] = None
    sample_rate: Annotated[
        StrictInt | None,
        Field(
            ge=MIN_SAMPLE_RATE,
            le=MAX_SAMPLE_RATE,
            description="Of the answer, in Hz; the model's own if not given. Some formats allow "
            "certain rates only.",
        ),
    ] = None
    timestamp_granularities: Annotated[
        list[Literal["word"]] | None,
        Field(
            min_length=1,
            description="['word']: tell when each word is spoken. With server-sent events as "
            "speech.audio.timestamps before the audio; else the answer is JSON with the audio in "
            "base64 (SpeechWithWords). Times count from the start of the audio; decoders of mp3 "
            "and aac put decoder_delay_ms of silence before it.",
        ),
    ] = None


class WordTiming(BaseModel):
    """A word as it was written, though it may be spoken as several, and when it sounds."""

    word: str
    start_ms: int
    end_ms: int
    start_char: Annotated[int, Field(description="In the input, in Unicode characters.")]
    end_char: Annotated[int, Field(description="Behind the word's last character.")]


class SpeechWithWords(BaseModel):
    """The answer to a request with ``timestamp_granularities`` that is not streamed."""

    audio: Annotated[str, Field(description="The file, in base64.")]
    format: AudioFormat
    sample_rate: int
    duration_ms: int
    decoder_delay_ms: Annotated[
        int,
        Field(
            description="What decoders of mp3 and aac put before the audio; add it to the words' "
            "times in a decoded file. 0 for other formats."
        ),
    ]
    words: list[WordTiming]
