"""Settings come in layers, each stricter than it looks, and errors name their key."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.config import EngineConfig
from engine.errors import ConfigError
from server.settings import ServerSettings, load_settings


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "voxloom.yaml"
    path.write_text(text)
    return path


def test_without_any_layer_the_defaults_hold() -> None:
    settings = load_settings(None, {})

    assert settings.server == ServerSettings()
    assert settings.engine == EngineConfig()


def test_each_layer_wins_over_the_one_below(tmp_path: Path) -> None:
    file = write(
        tmp_path, "server: {host: file, port: 1, log_level: error}\nengine: {max_running: 3}"
    )
    environ = {"VOXLOOM_HOST": "env", "VOXLOOM_PORT": "2", "VOXLOOM_ENGINE_MAX_WAITING": "5"}

    settings = load_settings(file, environ, {"host": "cli", "port": None})

    assert (settings.server.host, settings.server.port) == ("cli", 2)
    assert settings.server.log_level == "error"
    assert (settings.engine.max_running, settings.engine.max_waiting) == (3, 5)


def test_the_file_can_be_named_by_the_environment(tmp_path: Path) -> None:
    file = write(tmp_path, "server: {port: 4321}")

    assert load_settings(None, {"VOXLOOM_CONFIG": str(file)}).server.port == 4321


@pytest.mark.parametrize("text", ["", "server:\n", "server: {}\nengine:\n"])
def test_empty_sections_are_fine(tmp_path: Path, text: str) -> None:
    assert load_settings(write(tmp_path, text), {}).server == ServerSettings()


def test_values_of_the_environment_are_read_as_their_types() -> None:
    environ = {
        "VOXLOOM_CORS_ORIGINS": "https://a.example, https://b.example",
        "VOXLOOM_ACCESS_LOG": "false",
        "VOXLOOM_REQUEST_TIMEOUT_S": "2.5",
        "VOXLOOM_MAX_INPUT_CHARS": "",
    }

    server = load_settings(None, environ).server

    assert server.cors_origins == ("https://a.example", "https://b.example")
    assert server.access_log is False
    assert server.request_timeout_s == 2.5
    assert server.max_input_chars is None


def test_port_is_read_and_ours_wins() -> None:
    assert load_settings(None, {"PORT": "81"}).server.port == 81
    assert load_settings(None, {"PORT": "81", "VOXLOOM_PORT": "82"}).server.port == 82


def test_what_kubernetes_injects_for_a_service_of_our_name_is_no_setting() -> None:
    environ = {
        "VOXLOOM_PORT": "tcp://10.0.0.1:8000",
        "VOXLOOM_PORT_8000_TCP_ADDR": "10.0.0.1",
        "VOXLOOM_SERVICE_HOST": "10.0.0.1",
    }

    assert load_settings(None, environ).server.port == 8000


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({"VOXLOOM_PROT": "1"}, "unknown environment variable VOXLOOM_PROT; known: .*VOXLOOM_PORT"),
        ({"VOXLOOM_ENGINE_RUNNING": "1"}, "VOXLOOM_ENGINE_RUNNING; known: .*_MAX_RUNNING"),
        ({"VOXLOOM_PORT": "web"}, "VOXLOOM_PORT.*'web'"),
        ({"PORT": "web"}, "PORT.*'web'"),
        ({"VOXLOOM_PORT": "70000"}, "port must be from 0 to 65535"),
        ({"VOXLOOM_ACCESS_LOG": "perhaps"}, "VOXLOOM_ACCESS_LOG"),
        ({"VOXLOOM_LOG_LEVEL": "loud"}, "debug, info, warning, error"),
        ({"VOXLOOM_MAX_BODY_BYTES": "0"}, "max_body_bytes must be above 0"),
        ({"VOXLOOM_ENGINE_MAX_RUNNING": "0"}, "max_running"),
        ({"VOXLOOM_CONFIG": "/nowhere.yaml"}, "nowhere.yaml"),
        ({"VOXLOOM_API_KEY_FILE": "/nowhere.keys"}, "api_key_file"),
    ],
)
def test_a_wrong_variable_is_named(environ: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        load_settings(None, environ)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("server: {prot: 1}", "unknown key 'prot'; known keys: .*port"),
        ("engine: {running: 1}", "unknown key 'running'"),
        ("serve: {}", "server, engine"),
        ("- server", "server, engine"),
        ("server: {port: web}", "voxloom.yaml: server"),
        ("server: [", "not valid YAML"),
    ],
)
def test_a_wrong_file_is_named_with_its_key(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        load_settings(write(tmp_path, text), {})


def test_keys_come_from_everywhere_and_are_never_shown(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("# ours\nfile-key\n\nenv-key\n")
    environ = {
        "VOXLOOM_API_KEY": "env-key",
        "VOXLOOM_API_KEYS": "a-key, b-key",
        "VOXLOOM_API_KEY_FILE": str(file),
    }

    server = load_settings(None, environ).server

    assert server.api_keys == ("a-key", "b-key", "env-key", "file-key")
    assert "-key'" not in repr(server)
    assert "num_api_keys=4" in repr(server)


def test_a_key_file_without_keys_does_not_open_the_server(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("# none yet\n")

    with pytest.raises(ConfigError, match="holds no key"):
        load_settings(None, {"VOXLOOM_API_KEY_FILE": str(file)})
