"""The cascade with real processes: a voice is heard, understood, answered and spoken to."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from engine.async_omni_engine import AsyncOmniEngine
from engine.pipeline import PipelineConfig, load_pipeline
from server.audio.resampler import Resampler
from tests.engine.running import run, running
from tests.language_models import ScriptedLlm, scripted_llm

pytestmark = [pytest.mark.model, pytest.mark.process, pytest.mark.asr]
