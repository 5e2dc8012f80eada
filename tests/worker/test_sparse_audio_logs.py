import logging
import threading
from collections.abc import Callable

import pytest

from worker import sparse_audio
from worker.sparse_audio import CarrierLog, FailClosedLog, resolve_sparse_mm_routing


@pytest.fixture(autouse=True)
def _fresh_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse_audio, "carrier_log", CarrierLog())
    monkeypatch.setattr(sparse_audio, "fail_closed_log", FailClosedLog(clock=lambda: 0.0))


def _refuse(req_ids: object, *, marker: object = "1", output_type: str = "audio") -> None:
    resolve_sparse_mm_routing(
        engine_output_type=output_type,
        req_ids_output_copy=["a"],
        downstream_req_ids=["a"],
        multimodal_outputs={"meta": {"sparse_audio": marker, "req_id": req_ids}},
    )


class FakeClock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def _suppressed(caplog: pytest.LogCaptureFixture) -> list[object]:
    return [record.args[1] for record in caplog.records if isinstance(record.args, tuple)]


class TestFailClosedLog:
    def test_reports_once_a_minute_with_the_count_held_back(
        self, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        clock = FakeClock()
        monkeypatch.setattr(sparse_audio, "fail_closed_log", FailClosedLog(clock=clock))
        for now_s in (1000.0, 1000.0, 1030.0, 1059.9, 1060.0, 1060.1, 1120.0, 1500.0):
            clock.now_s = now_s
            _refuse(None)
        assert _suppressed(caplog) == [0, 3, 1, 0]
        assert {record.levelno for record in caplog.records} == {logging.ERROR}
        assert "req_id is missing" in caplog.text

    def test_other_output_types_report_nothing(self, caplog: pytest.LogCaptureFixture) -> None:
        _refuse(None, output_type="text")
        assert not caplog.records

    def test_the_first_report_is_due_at_any_clock_reading(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        FailClosedLog(clock=lambda: 0.0).report("reason")
        assert _suppressed(caplog) == [0]

    def test_a_report_names_few_of_many_repeated_ids(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        ids = [f"request-{number}" for number in range(1000)]
        _refuse(ids + ids)
        assert "repeats 1000 ids" in caplog.text
        assert len(caplog.messages[0]) < 300


def _in_threads(target: Callable[[], object], num_threads: int = 8) -> None:
    barrier = threading.Barrier(num_threads)

    def run() -> None:
        barrier.wait()
        for _ in range(200):
            target()

    threads = [threading.Thread(target=run) for _ in range(num_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class TestThreads:
    def test_no_refused_step_is_lost_from_the_count(self, caplog: pytest.LogCaptureFixture) -> None:
        clock = FakeClock()
        log = FailClosedLog(clock=clock)
        _in_threads(lambda: log.report("reason"))
        clock.now_s += 60.0
        log.report("reason")
        assert _suppressed(caplog) == [0, 8 * 200 - 1]

    def test_an_offending_type_is_logged_by_one_thread_only(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        _in_threads(lambda: _refuse(["a"], marker=True))
        from_carriers = [record for record in caplog.records if "illegal type" in record.message]
        assert len(from_carriers) == 1
