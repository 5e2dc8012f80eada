# Every target makes and uses its own virtual environment, .venv.
#
#   PYTHON           the Python (3.11 or newer) that .venv is made with
#   PORT, ARGS       the port of `make serve`, and further arguments of what a target runs
#   TORCH_INDEX_URL  PyTorch's index of builds for CPUs, which `make dev` asks besides where pip
#                    does not find torch's CPU build by itself
#   BUILDER          docker, podman or buildah, for `make image`; ARGS go to it

PYTHON ?= python3
TORCH_INDEX_URL ?= https://download.pytorch.org/whl/cpu
VENV := .venv
BIN := $(VENV)/bin
IMAGE ?= voxloom
BUILDER ?= $(shell command -v docker || command -v podman || command -v buildah || echo docker)
TYPED := $(sort $(dir $(wildcard $(addsuffix /*.py,server engine worker tests benchmarks examples))))
NODE_EXAMPLES := examples/node/node_modules/.package-lock.json
PIP := $(BIN)/python -m pip --disable-pip-version-check

# vLLM asks for these, and uses them for images and sounds only. Where one was built for another torch
# than the one here it fails when it is imported, and takes transformers, and so vLLM, with it.
BESIDE_TORCH := torchvision torchaudio torchcodec
REMOVE_BROKEN = for package in $(BESIDE_TORCH); do \
	$(BIN)/python -W ignore -c "import $$package" 2>/dev/null || \
		$(PIP) uninstall --quiet --yes $$package 2>/dev/null || true; done

.PHONY: help install dev serve check test bench image clean
.DELETE_ON_ERROR:

help:
	@echo "make install  install voxloom into .venv"
	@echo "make serve    install, then serve speech (PORT=9000, ARGS='--host 0.0.0.0')"
	@echo "make dev      install what the checks and tests need, too"
	@echo "make check    linter, formatter, types, layers"
	@echo "make test     check, then run every test; no group may be empty, none skipped"
	@echo "make bench    measure (ARGS chooses what)"
	@echo "make image    build the container image $(IMAGE)"
	@echo "make clean    remove .venv and all caches"

install: $(VENV)/installed

dev: $(VENV)/dev-installed

serve: install
	$(BIN)/voxloom serve $(ARGS)

check: dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(TYPED)
	$(BIN)/python -m pytest -q tests/test_layers.py

test: check $(NODE_EXAMPLES)
	$(BIN)/python -m pytest -p tests.marker_report --durations=10

$(NODE_EXAMPLES): examples/node/package-lock.json
	npm ci --prefix examples/node --no-audit --no-fund --loglevel=error
	@touch $@

bench: dev
	$(BIN)/python -m benchmarks $(ARGS)

# Without that format podman and buildah drop the health check.
image:
	BUILDAH_FORMAT=docker $(BUILDER) build -t $(IMAGE) $(ARGS) .

clean:
	rm -rf $(VENV) examples/node/node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis

# The stamps are older than pyproject.toml when what it asks for may have changed.
$(VENV)/installed: pyproject.toml | $(BIN)/python
	$(PIP) install --quiet --editable .
	@touch $@

$(VENV)/dev-installed: pyproject.toml | $(BIN)/python
	$(PIP) install --quiet --editable '.[dev]' || \
		$(PIP) install --quiet --extra-index-url $(TORCH_INDEX_URL) --editable '.[dev]'
	@$(REMOVE_BROKEN)
	@touch $@ $(VENV)/installed

# Debian splits ensurepip off Python (python3-venv); there, a pip of that Python fills the .venv.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "voxloom needs Python 3.11 or newer: make PYTHON=/path/to/python3" >&2; exit 1; }
	@if $(PYTHON) -c 'import ensurepip' 2>/dev/null; then \
		$(PYTHON) -m venv $(VENV); \
	elif $(PYTHON) -m pip --version >/dev/null 2>&1; then \
		$(PYTHON) -m venv --without-pip $(VENV) && \
		$(PYTHON) -m pip --python $(BIN)/python install --quiet pip; \
	else \
		echo "$(PYTHON) has neither ensurepip nor pip: install Debian's python3-venv" >&2; exit 1; \
	fi
