"""The worker process: reads its spec, loads its model, says hello, runs its backend."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys

import msgspec

from engine.errors import ConfigError
from engine.messages import Hello, ReplicaFailed
from engine.pipeline import load_object
from engine.placement.spec import ReplicaSpec
from worker.stage_model import StageContext
from worker.step_loop import StepLoop
from worker.transport import Transport

logger = logging.getLogger("voxloom.worker")

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    parent = os.getppid()
    spec = msgspec.json.decode(sys.stdin.buffer.read(), type=ReplicaSpec)
    _die_with_parent(parent)
    # Stopping is the orchestrator's decision: a Ctrl-C at the terminal reaches everyone.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    _pin_cpus(spec)
    transport = Transport(spec)
    try:
        return _serve(spec, transport)
    finally:
        transport.close()


def _serve(spec: ReplicaSpec, transport: Transport) -> int:
    stage = spec.pipeline.stages[spec.stage_id]
    context = StageContext(spec.pipeline, stage, spec.stage_id)
    try:
        model = load_object(stage.model, f"stages[{spec.stage_id}].model")(context)
        backend = StepLoop(model, context, transport, orphan_timeout_s=spec.orphan_timeout_s)
        hello = Hello(spec.replica_id, spec.stage_id, os.getpid(), backend.fingerprint())
    except (ConfigError, OSError, ImportError, ValueError, RuntimeError, MemoryError) as error:
        logger.exception("replica %s cannot load its model", spec.replica_id)
        transport.send(ReplicaFailed(spec.replica_id, f"{type(error).__name__}: {error}"))
        return 1
    transport.send(hello)
    backend.run()
    return 0


def _die_with_parent(parent: int) -> None:
    """On Linux, have the kernel end this process when its parent ends."""
    if sys.platform != "linux":
        return  # elsewhere the missing pings end it
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # it ended before the line above


def _pin_cpus(spec: ReplicaSpec) -> None:
    cpus = spec.pipeline.stages[spec.stage_id].cpus
    if cpus and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cpus[spec.rank % len(cpus)])


if __name__ == "__main__":
    sys.exit(main())
