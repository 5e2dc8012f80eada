"""Opens onnxruntime sessions the way a replica needs them."""

from __future__ import annotations

import onnxruntime as ort


def open_session(model: bytes) -> ort.InferenceSession:
    """A session with one thread: replicas run several sentences at once, each on its own thread.

    Without spinning: a spinning thread takes the core that another sentence needs.
    """
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    # A memory plan would be kept for every new length of a sentence, without bound.
    options.enable_mem_pattern = False
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
