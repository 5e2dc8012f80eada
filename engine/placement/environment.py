"""The environment variables of a worker's process, where nobody has set them."""

from __future__ import annotations

WORKER_DEFAULTS = {
    # One thread per library: parallelism comes from replicas and from steps in flight, and spinning
    # pools collapse when another process takes a core.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    # onnxruntime reports its use by default and leaves files in the home directory for it.
    "ORT_DISABLE_TELEMETRY": "1",
}
