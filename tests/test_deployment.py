"""Images and compose file: they name only what exists."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from engine.config import EngineConfig
from engine.pipeline import list_pipelines
from server.cli import build_parser
from server.settings import CONFIG_VARIABLE, ServerSettings

ROOT = Path(__file__).parent.parent
DOCKERFILES = ("Dockerfile", "Dockerfile.gpu")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())


def instructions(name: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile, with their arguments on one line."""
    lines = [line for line in (ROOT / name).read_text().splitlines() if not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    split = [line.split(None, 1) for line in joined.splitlines() if line.strip()]
    return [(word, rest) for word, rest in split]


def environment(name: str) -> dict[str, str]:
    texts = [rest for word, rest in instructions(name) if word == "ENV"]
    return dict(re.findall(r"(\w+)=(\S+)", " ".join(texts)))


def setting_names() -> set[str]:
    server = {f"VOXLOOM_{field.upper()}" for field in ServerSettings.__struct_fields__}
    engine = {f"VOXLOOM_ENGINE_{field.upper()}" for field in EngineConfig.__struct_fields__}
    return server | engine | {CONFIG_VARIABLE}


@pytest.mark.parametrize("name", DOCKERFILES)
def test_an_image_copies_only_what_is_there_and_is_sent_to_the_builder(name: str) -> None:
    ignore = (ROOT / ".dockerignore").read_text().splitlines()
    copies = [rest.split() for word, rest in instructions(name) if word == "COPY"]
    sources = [s for *found, _to in copies for s in found if not found[0].startswith("--from")]
    assert "worker" in sources
    for source in sources:
        assert (ROOT / source).exists()
        assert f"!{source}" in ignore or f"!{source}/" in ignore


@pytest.mark.parametrize("name", DOCKERFILES)
def test_an_image_starts_a_command_of_the_command_line_with_settings_that_exist(name: str) -> None:
    found = dict(instructions(name))
    assert found["ENTRYPOINT"] == '["voxloom"]'
    assert "voxloom" in PROJECT["scripts"]
    command = yaml.safe_load(found["CMD"])
    assert build_parser().parse_args(command).command == "serve"
    variables = environment(name)
    assert {v for v in variables if v.startswith("VOXLOOM_")} <= setting_names()
    assert variables["PORT"] == found["EXPOSE"]
    assert variables.get("VOXLOOM_PIPELINE", "hibari") in list_pipelines()


def test_both_images_run_as_any_user_and_are_asked_for_their_health_alike() -> None:
    one, other = (dict(instructions(name)) for name in DOCKERFILES)
    for word in ("USER", "HEALTHCHECK", "STOPSIGNAL", "WORKDIR"):
        assert one[word] == other[word]
    assert one["USER"] == "1000:1000"
    for name in DOCKERFILES:
        assert environment(name)["HOME"] == "/tmp"


def test_the_gpu_image_is_built_on_the_vllm_that_the_project_supports() -> None:
    (base,) = [rest for word, rest in instructions("Dockerfile.gpu") if word == "ARG"]
    match = re.fullmatch(r"VLLM_IMAGE=\S+/vllm-openai:v(\d+)\.(\d+)\.\d+", base)
    assert match is not None
    major, minor = (int(part) for part in match.groups())
    (extra,) = PROJECT["optional-dependencies"]["vllm"]
    assert extra == f"vllm>={major}.{minor},<{major}.{minor + 1}"
    extras = re.findall(
        r"optional-dependencies'\]\['([\w-]+)'\]", (ROOT / "Dockerfile.gpu").read_text()
    )
    assert set(extras) == {"asr", "codec", "vllm"}


def service(profile: str) -> dict[str, Any]:
    (found,) = [s for s in COMPOSE["services"].values() if s["profiles"] == [profile]]
    return dict(found)


@pytest.mark.parametrize(
    ("profile", "dockerfile"), [("cpu", "Dockerfile"), ("gpu", "Dockerfile.gpu")]
)
def test_a_compose_profile_runs_its_image_locked_down(profile: str, dockerfile: str) -> None:
    found = service(profile)
    assert found["build"]["dockerfile"] == dockerfile
    assert (found["read_only"], found["tmpfs"], found["cap_drop"]) == (True, ["/tmp"], ["ALL"])
    port = environment(dockerfile)["PORT"]
    assert found["ports"] == [f"${{PORT:-8000}}:{port}"]
    grace_s = int(found["stop_grace_period"].removesuffix("s"))
    assert grace_s >= EngineConfig().drain_timeout_s + 5


def test_the_gpu_profile_names_a_pipeline_a_gpu_and_a_volume_for_models() -> None:
    found = service("gpu")
    variables = found["environment"]
    assert {v for v in variables if v.startswith("VOXLOOM_")} <= setting_names()
    default = re.fullmatch(r"\$\{VOXLOOM_PIPELINE:-(.+)\}", variables["VOXLOOM_PIPELINE"])
    assert default is not None
    assert default[1] in list_pipelines()
    (device,) = found["deploy"]["resources"]["reservations"]["devices"]
    assert (device["driver"], device["capabilities"]) == ("nvidia", ["gpu"])
    (volume,) = [v.partition(":") for v in found["volumes"]]
    assert volume[0] in COMPOSE["volumes"]
    assert volume[2] == environment("Dockerfile.gpu")["HF_HOME"]


@pytest.mark.parametrize("page", ["gpu.md", "lm-codec.md", "docker.md"])
def test_a_page_names_pipelines_and_pages_that_exist(page: str) -> None:
    text = (ROOT / "docs" / page).read_text()
    for name in re.findall(r"--pipeline (?!\./)([\w-]+)|(lm-codec-[\w]+)", text):
        assert (name[0] or name[1]) in list_pipelines()
    for linked in re.findall(r"\]\((\w[\w-]*\.md)\)", text):
        assert (ROOT / "docs" / linked).exists()
