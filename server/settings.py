"""The server's settings, in layers: defaults < config file < environment < command line.

The file is YAML with the sections ``server`` and ``engine``. In the environment a field of the
server is ``VOXLOOM_<FIELD>`` and one of the engine ``VOXLOOM_ENGINE_<FIELD>``; lists are separated
by commas. A key that does not exist is an error, in every layer.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, get_origin, get_type_hints

import msgspec

from engine.config import EngineConfig
from engine.errors import ConfigError
from engine.strict import convert, load_yaml

T = TypeVar("T", bound=msgspec.Struct)

_PREFIX = "VOXLOOM_"
_ENGINE_PREFIX = "VOXLOOM_ENGINE_"
CONFIG_VARIABLE = "VOXLOOM_CONFIG"
_API_KEY_VARIABLE = "VOXLOOM_API_KEY"
# Read by the stage that asks a language model (worker.models.thinker.endpoint).
_THINKER_VARIABLES = ("VOXLOOM_THINKER_URL", "VOXLOOM_THINKER_MODEL")
_LOG_LEVELS = ("debug", "info", "warning", "error")


class ServerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the HTTP server itself can be told.

    ``max_body_bytes`` bounds a request's body; ``max_input_chars`` its text (None: only the body's
    limit). A WAV or FLAC answer is buffered, for its length in the header, up to ``max_buffered_s``
    seconds of audio; ``stream: false`` buffers any format, up to ``max_complete_s``. A client that
    reads nothing for ``send_timeout_s`` loses its request. ``request_timeout_s`` (None: no limit)
    ends a request that takes longer. A WebSocket must be configured within
    ``socket_config_timeout_s``, and closes when neither side has sent or played anything for
    ``socket_idle_timeout_s``.

    ``transcribe`` is the pipeline that writes down speech: a name or a file, which starts with the
    server; ``auto`` for ``transcribe`` if its packages are installed, which starts with the first
    request for it; or ``off``. ``talk`` is the pipeline that holds conversations, with a language
    model: ``auto`` for ``cascade`` if VOXLOOM_THINKER_URL says where that is, a name, a file or
    ``off``. ``max_chat_bytes`` bounds a chat request, audio included.
    ``audio_url_hosts`` are hosts that ``audio_url`` parts of chat messages are fetched from (names,
    ``*.example.com``, ``*`` for all; with a port other than the usual ones ``name:port``), and then
    only where they have public addresses.
    ``max_upload_bytes`` bounds a recording, which goes to the disk: three hours of uncompressed
    speech fit. A recording or a chat request of which nothing comes for ``upload_timeout_s``, or
    less than 4 kB a second from then on, loses its place.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    pipeline: str = "hibari"
    transcribe: str = "auto"
    api_keys: tuple[str, ...] = ()
    api_key_file: str | None = None
    cors_origins: tuple[str, ...] = ("*",)
    max_body_bytes: int = 1_000_000
    talk: str = "auto"
    max_upload_bytes: int = 400_000_000
    upload_timeout_s: float = 30.0
    max_chat_bytes: int = 64_000_000
    audio_url_hosts: tuple[str, ...] = ()
    max_input_chars: int | None = None
    max_buffered_s: float = 30.0
    max_complete_s: float = 1800.0
    send_timeout_s: float = 300.0
    request_timeout_s: float | None = None
    keep_alive_s: float = 75.0
    socket_config_timeout_s: float = 10.0
    socket_idle_timeout_s: float = 30.0
    num_encoder_threads: int = 2
    num_decoder_threads: int = 2
    log_level: str = "info"
    access_log: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ValueError(f"port must be from 0 to 65535, got {self.port}")
        if self.log_level not in _LOG_LEVELS:
            known = ", ".join(_LOG_LEVELS)
            raise ValueError(f"log_level must be one of {known}, got {self.log_level!r}")
        for key in (
            "max_body_bytes",
            "max_upload_bytes",
            "upload_timeout_s",
            "max_chat_bytes",
            "max_input_chars",
            "max_buffered_s",
            "max_complete_s",
            "send_timeout_s",
            "request_timeout_s",
            "keep_alive_s",
            "socket_config_timeout_s",
            "socket_idle_timeout_s",
            "num_encoder_threads",
            "num_decoder_threads",
        ):
            value = getattr(self, key)
            if value is not None and not value > 0:
                raise ValueError(f"{key} must be above 0, got {value}")

    def __repr__(self) -> str:
        """Every field but the keys: settings may be logged."""
        shown = {key: getattr(self, key) for key in self.__struct_fields__ if key != "api_keys"}
        return f"ServerSettings({shown}, num_api_keys={len(self.api_keys)})"


@dataclass(frozen=True, slots=True)
class Settings:
    """The server's own settings and the engine's."""

    server: ServerSettings = field(default_factory=ServerSettings)
    engine: EngineConfig = field(default_factory=EngineConfig)


def load_settings(
    config_file: Path | None,
    environ: Mapping[str, str] = os.environ,
    overrides: Mapping[str, Any] | None = None,
) -> Settings:
    """The settings of all layers. ``overrides`` are server fields from the command line.

    Raises ``ConfigError`` that names the key and its layer.
    """
    path = config_file or _config_path(environ)
    sections = _read_file(path) if path else {"server": {}, "engine": {}}
    server = sections["server"] | _from_environ(environ, ServerSettings, _PREFIX)
    engine = sections["engine"] | _from_environ(environ, EngineConfig, _ENGINE_PREFIX)
    server |= {key: value for key, value in (overrides or {}).items() if value is not None}
    settings = convert(server, ServerSettings, "server settings")
    return Settings(_with_keys(settings, environ), convert(engine, EngineConfig, "engine settings"))


def _config_path(environ: Mapping[str, str]) -> Path | None:
    named = environ.get(CONFIG_VARIABLE)
    return Path(named) if named else None


def _read_file(path: Path) -> dict[str, dict[str, Any]]:
    """The sections of a config file, checked on their own so that an error names the file."""
    data = load_yaml(path) or {}
    if not isinstance(data, dict) or not set(data) <= {"server", "engine"}:
        raise ConfigError(f"{path}: the top-level keys must be among server, engine")
    server, engine = data.get("server") or {}, data.get("engine") or {}
    convert(server, ServerSettings, f"{path}: server")
    convert(engine, EngineConfig, f"{path}: engine")
    return {"server": server, "engine": engine}


def _from_environ(
    environ: Mapping[str, str], kind: type[msgspec.Struct], prefix: str
) -> dict[str, Any]:
    hints = get_type_hints(kind)
    values = {}
    if kind is ServerSettings and "PORT" in environ:
        values["port"] = _parse("PORT", environ["PORT"], int)
    for name in _variables(environ, prefix):
        key = name.removeprefix(prefix).lower()
        if key not in hints:
            known = ", ".join(f"{prefix}{field}".upper() for field in sorted(hints))
            raise ConfigError(f"unknown environment variable {name}; known: {known}")
        values[key] = _parse(name, environ[name], hints[key])
    return values


def _variables(environ: Mapping[str, str], prefix: str) -> Iterator[str]:
    """The variables that set a field.

    A Kubernetes Service called "voxloom" puts VOXLOOM_SERVICE_*, VOXLOOM_PORT_* and
    VOXLOOM_PORT=tcp://... into the environment of every pod beside it; those are not settings.
    """
    for name in environ:
        injected = name.startswith(("VOXLOOM_SERVICE_", "VOXLOOM_PORT_")) or (
            name == "VOXLOOM_PORT" and "://" in environ[name]
        )
        engines = prefix == _PREFIX and name.startswith(_ENGINE_PREFIX)
        special = name in (CONFIG_VARIABLE, _API_KEY_VARIABLE, *_THINKER_VARIABLES)
        if name.startswith(prefix) and not (injected or engines or special):
            yield name


def _parse(name: str, text: str, hint: Any) -> Any:
    """``text`` as the field's type; an empty text leaves an optional field unset."""
    value: Any = text.strip()
    if get_origin(hint) is tuple:
        value = [item.strip() for item in value.split(",") if item.strip()]
    elif not value and type(None) in getattr(hint, "__args__", ()):
        return None
    try:
        return msgspec.convert(value, hint, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{name}: {error}, got {text[:60]!r}") from error


def _with_keys(settings: ServerSettings, environ: Mapping[str, str]) -> ServerSettings:
    """``settings`` with the keys of VOXLOOM_API_KEY and of the key file added."""
    keys = list(settings.api_keys)
    if environ.get(_API_KEY_VARIABLE):
        keys.append(environ[_API_KEY_VARIABLE].strip())
    if settings.api_key_file is not None:
        keys += _read_keys(Path(settings.api_key_file))
    return msgspec.structs.replace(settings, api_keys=tuple(dict.fromkeys(keys)))


def _read_keys(path: Path) -> list[str]:
    """One key a line; blank lines and lines that begin with ``#`` do not count.

    A file without a key is an error: it was meant to close the server, not to open it.
    """
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"api_key_file: cannot read {path}: {error}") from error
    keys = [line for line in lines if line and not line.startswith("#")]
    if not keys:
        raise ConfigError(f"api_key_file: {path} holds no key")
    return keys
