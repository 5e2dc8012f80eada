"""The worker process: gets its spec, loads its model, says hello, runs its backend.

A local replica reads its spec from standard input. A worker started by hand
(``python -m worker.main --connect ...``) asks the engine for one. Exit statuses: 0 the engine ended
it, 1 the model or the link failed, 2 a wrong command line, 3 the engine refused it.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from engine.errors import ConfigError
from engine.messages import Hello, ReplicaFailed
from engine.pipeline import load_object
from engine.placement.keys import WorkerKeys, read_worker_keys
from engine.placement.spec import ReplicaSpec
from engine.trace import FieldFormatter
from worker.backend import EngineDiedError, ReplicaBackend
from worker.failures import tell_start_failure
from worker.join import EngineLostError, RefusedError, join
from worker.lifeline import die_with_parent
from worker.stage_model import StageContext
from worker.step_loop import StepHangsError, StepLoop
from worker.transport import Transport

logger = logging.getLogger("voxloom.worker")

# An engine that is being started, or whose address has just moved, is there within this time.
_JOIN_TIMEOUT_S = 30.0
_REJOIN_BACKOFF_S = 1.0


def main(argv: Sequence[str]) -> int:
    _log_to_stderr()
    return _run_joining(_parse(argv)) if argv else _run_local()


def run_encoded(spec: bytes) -> int:
    """Run the replica of a spec in JSON, in a process that another program has made (Ray)."""
    _log_to_stderr()
    return run_replica(msgspec.json.decode(spec, type=ReplicaSpec))


def run_replica(spec: ReplicaSpec) -> int:
    """Run one replica in this process until the engine ends it; 0, or 1 if it failed."""
    transport = Transport(spec)
    try:
        status = _serve(spec, transport)
        if transport.lost is not None:
            logger.error("replica %s: %s", spec.replica_id, transport.lost)
            return 1
        return status
    finally:
        transport.close()


def _log_to_stderr() -> None:
    """At the server's level, if the environment has it. Debug tells when each step ran."""
    handler = logging.StreamHandler()
    handler.setFormatter(FieldFormatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    level = os.environ.get("VOXLOOM_LOG_LEVEL", "info")
    logging.getLogger("voxloom").setLevel(level.upper())


def _run_local() -> int:
    parent = os.getppid()
    spec = msgspec.json.decode(sys.stdin.buffer.read(), type=ReplicaSpec)
    die_with_parent(parent)
    # Stopping is the orchestrator's decision: a Ctrl-C at the terminal reaches everyone.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    _pin_cpus(spec)
    return run_replica(spec)


def _run_joining(arguments: argparse.Namespace) -> int:
    # Whatever was running here is replayed elsewhere as soon as the link closes.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: os._exit(0))
    give_up_after_s = None if arguments.rejoin else _JOIN_TIMEOUT_S
    try:
        keys = _read_keys(arguments.key_file)
        spec = join(arguments.connect, arguments.stage, keys, give_up_after_s=give_up_after_s)
    except (RefusedError, ConfigError) as error:
        print(f"voxloom worker: refused: {error}", file=sys.stderr)
        return 3
    except EngineLostError as error:
        print(f"voxloom worker: error: {error}", file=sys.stderr)
        return 1
    status = run_replica(spec)
    if arguments.rejoin:
        _start_anew()
    return status


def _start_anew() -> None:
    """Become a fresh process with the same command line: nothing of the last replica is left."""
    time.sleep(_REJOIN_BACKOFF_S)
    os.execv(sys.executable, [sys.executable, "-m", "worker.main", *sys.argv[1:]])  # noqa: S606


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="voxloom worker")
    parser.add_argument("--connect", required=True)
    parser.add_argument("--stage", required=True)
    parser.add_argument("--key-file")
    parser.add_argument("--rejoin", action="store_true")
    return parser.parse_args(argv)


def _read_keys(path: str | None) -> WorkerKeys | None:
    return None if path is None else read_worker_keys(Path(path))


def _serve(spec: ReplicaSpec, transport: Transport) -> int:
    stage = spec.pipeline.stages[spec.stage_id]
    context = StageContext(spec.pipeline, stage, spec.stage_id)
    try:
        backend = _load_backend(context, transport, spec.orphan_timeout_s)
        hello = Hello(spec.replica_id, spec.stage_id, os.getpid(), backend.fingerprint())
    except Exception as error:
        reason = tell_start_failure(spec.replica_id, error)
        transport.send(ReplicaFailed(spec.replica_id, reason))
        return 1
    transport.send(hello)
    try:
        backend.run()
    except StepHangsError as error:
        logger.critical("replica %s: %s", spec.replica_id, error)
        transport.send(ReplicaFailed(spec.replica_id, str(error)))
        transport.close()
        os._exit(1)  # an ordinary exit would wait for the step
    except EngineDiedError as error:
        transport.send(ReplicaFailed(spec.replica_id, str(error)))
        return 1
    return 0


def _load_backend(
    context: StageContext, transport: Transport, orphan_timeout_s: float
) -> ReplicaBackend:
    if context.stage.stage_type == "llm":
        # Only here: vLLM and what it needs take seconds to import, and may not be installed.
        from worker.vllm.backend import VllmBackend

        return VllmBackend(context, transport, orphan_timeout_s=orphan_timeout_s)
    model = load_object(context.stage.model, f"stages[{context.stage_id}].model")(context)
    return StepLoop(model, context, transport, orphan_timeout_s=orphan_timeout_s)


def _pin_cpus(spec: ReplicaSpec) -> None:
    cpus = spec.pipeline.stages[spec.stage_id].cpus
    if cpus and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cpus[spec.rank % len(cpus)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
