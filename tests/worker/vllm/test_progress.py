"""A vLLM that hangs is told from one that has nothing to do."""

from __future__ import annotations

from worker.vllm.progress import Progress


def test_silence_counts_only_while_somebody_waits() -> None:
    now = [0.0]
    progress = Progress(lambda: now[0])
    now[0] = 100.0
    assert progress.silent_s == 0.0
    with progress:
        now[0] = 130.0
        assert progress.silent_s == 30.0
        with progress:
            now[0] = 140.0
            assert progress.silent_s == 40.0
        assert progress.silent_s == 0.0
        now[0] = 145.0
        assert progress.silent_s == 5.0
    assert progress.silent_s == 0.0
