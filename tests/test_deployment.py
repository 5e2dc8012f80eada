"""Images and compose file: they name only what exists."""

from __future__ import annotations

import re
import subprocess
import sys
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
    assert (found["read_only"], found["cap_drop"]) == (True, ["ALL"])
    (writable,) = [entry.partition(":")[0] for entry in found["tmpfs"]]
    assert writable == environment(dockerfile)["HOME"]
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


def test_what_vllm_compiles_at_the_start_can_be_loaded_from_where_it_lies() -> None:
    """Docker mounts a tmpfs with noexec unless told otherwise."""
    (entry,) = service("gpu")["tmpfs"]
    mounted, _, options = entry.partition(":")
    assert "exec" in options.split(",")
    caches = environment("Dockerfile.gpu")
    for name in ("HOME", "XDG_CACHE_HOME", "VLLM_CACHE_ROOT"):
        assert Path(caches[name]).is_relative_to(mounted)


def shell_commands(name: str) -> list[str]:
    """What the RUN instructions of a Dockerfile do, one command each."""
    runs = [rest for word, rest in instructions(name) if word == "RUN"]
    return [command.strip() for run in runs for command in run.split("&&")]


@pytest.mark.parametrize(
    ("name", "extras"), [("Dockerfile", []), ("Dockerfile.gpu", ["codec", "asr", "vllm"])]
)
def test_an_image_installs_what_the_project_asks_for(
    name: str, extras: list[str], tmp_path: Path
) -> None:
    """The Dockerfile's own command, in a shell, with the files that are there by then."""
    (command,) = [c for c in shell_commands(name) if c.endswith("> requirements.txt")]
    (tmp_path / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    own = command.replace("python3", sys.executable, 1)
    subprocess.run(["sh", "-ec", own], cwd=tmp_path, check=True, timeout=120)
    wanted = [*PROJECT["dependencies"]]
    for extra in extras:
        wanted += PROJECT["optional-dependencies"][extra]
    assert (tmp_path / "requirements.txt").read_text().splitlines() == wanted
    (install,) = [c for c in shell_commands(name) if c.endswith("-r requirements.txt")]
    assert " pip install " in f" {install.rpartition('/')[2]}"


def test_the_gpu_image_keeps_what_its_base_was_built_with(tmp_path: Path) -> None:
    """Local versions, such as torch's for CUDA, stay in the constraints."""
    (command,) = [c for c in shell_commands("Dockerfile.gpu") if c.endswith("> base.txt")]
    listed, _, rest = command.partition("|")
    assert listed.strip() == "python3 -m pip list --format=freeze"
    packages = ["numpy==2.3.5", "torch==2.13.0+cu130", "torch-c-dlpack-ext==0.1.5", "vllm==0.32.0"]
    piped = f"printf '%s\\n' {' '.join(packages)} | {rest}"
    subprocess.run(["sh", "-ec", piped], cwd=tmp_path, check=True, timeout=120)
    kept = (tmp_path / "base.txt").read_text().splitlines()
    assert kept == ["numpy==2.3.5", "torch==2.13.0+cu130", "vllm==0.32.0"]


@pytest.mark.parametrize("page", ["gpu.md", "lm-codec.md", "docker.md"])
def test_a_page_names_pipelines_and_pages_that_exist(page: str) -> None:
    text = (ROOT / "docs" / page).read_text()
    for name in re.findall(r"--pipeline (?!\./)([\w-]+)|(lm-codec-[\w]+)", text):
        assert (name[0] or name[1]) in list_pipelines()
    for linked in re.findall(r"\]\((\w[\w-]*\.md)\)", text):
        assert (ROOT / "docs" / linked).exists()
