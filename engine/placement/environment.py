"""The environment variables of a worker's process."""

from __future__ import annotations

# One thread per library: parallelism comes from replicas and from steps in flight, and spinning
# pools collapse when another process takes a core.
SINGLE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
