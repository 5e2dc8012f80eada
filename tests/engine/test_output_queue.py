"""The queue between the orchestrator's thread and a caller's event loop."""

from __future__ import annotations

import asyncio
import threading

from engine.buffering import StageReports
from engine.messages import AckMessage, ErrorMessage, OutputMessage
from engine.output_queue import OutputQueue, is_terminal
from engine.wake_ups import WakeUps


def reports(every: int) -> dict[int, StageReports]:
    return {0: StageReports(is_audio=True, report_every=every)}


def chunk(number: int, num_samples: int = 10) -> OutputMessage:
    return OutputMessage("r", 0, {"audio": b""}, number * num_samples, num_samples)


def test_messages_of_another_thread_arrive_in_order() -> None:
    queue = OutputQueue(1000, reports(1000), lambda _stage, _position: None)

    def put_all() -> None:
        wake_ups = WakeUps()
        for number in range(500):
            queue.put(chunk(number), wake_ups)
            wake_ups.carry_out()

    async def read() -> list[int]:
        thread = threading.Thread(target=put_all)
        thread.start()
        starts = []
        for _ in range(500):
            message = await queue.get()
            assert isinstance(message, OutputMessage)
            starts.append(message.start_sample)
        thread.join()
        return starts

    assert asyncio.run(read()) == [i * 10 for i in range(500)]


def test_what_was_put_before_anyone_waits_is_kept() -> None:
    queue = OutputQueue(1000, reports(1000), lambda _stage, _position: None)
    queue.put(chunk(0), WakeUps())
    assert asyncio.run(queue.get()) == chunk(0)


def test_consumption_is_reported_each_time_enough_was_read() -> None:
    told: list[tuple[int, int]] = []
    queue = OutputQueue(1000, reports(30), lambda *report: told.append(report))
    for number in range(7):
        queue.put(chunk(number), WakeUps())

    async def read() -> None:
        for _ in range(7):
            await queue.get()

    asyncio.run(read())
    assert told == [(0, 30), (0, 60)]


def test_a_reader_whose_loop_was_closed_does_not_disturb_the_writer() -> None:
    queue = OutputQueue(1000, reports(1000), lambda _stage, _position: None)
    loop = asyncio.new_event_loop()
    task = loop.create_task(queue.get())
    loop.run_until_complete(asyncio.sleep(0))
    task.cancel()
    loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    loop.close()
    wake_ups = WakeUps()
    queue.put(chunk(0), wake_ups)
    wake_ups.carry_out()
    assert asyncio.run(queue.get()) == chunk(0)


def test_only_the_last_output_and_fatal_errors_are_terminal() -> None:
    assert is_terminal(OutputMessage("r", 0, finished=True))
    assert is_terminal(ErrorMessage("r", "x", "y"))
    assert not is_terminal(ErrorMessage("r", "x", "y", fatal=False))
    assert not is_terminal(AckMessage("r", "e", "pause"))
    assert not is_terminal(chunk(0))


def test_an_interrupt_drops_what_was_not_read_and_says_what_was() -> None:
    queue = OutputQueue(1000, reports(1000), lambda _stage, _position: None)
    words = [(i * 100, i * 100 + 90, i * 6, i * 6 + 5) for i in range(6)]
    for number in range(6):
        queue.put(
            OutputMessage(
                "r", 0, {"audio": b"", "words": words if number == 0 else []}, number * 100, 100
            ),
            WakeUps(),
        )
    ack = AckMessage("r", "e", "interrupt", {"resume_sample": 600, "played_ms": 95})
    queue.put(ack, WakeUps())

    answer = asyncio.run(queue.get())
    assert isinstance(answer, AckMessage)
    assert answer.result == {
        "sent_ms": 0,
        "sent_chars": 0,
        "resume_sample": 600,
        "heard_ms": 0,
        "heard_chars": 0,
    }


def test_what_was_sent_and_heard_is_told_to_the_word() -> None:
    queue = OutputQueue(1000, reports(1000), lambda _stage, _position: None)
    words = [(i * 100, i * 100 + 90, i * 6, i * 6 + 5) for i in range(6)]
    for number in range(6):
        payload = {"audio": b"", "words": words if number == 0 else []}
        queue.put(OutputMessage("r", 0, payload, number * 100, 100), WakeUps())

    async def scenario() -> AckMessage:
        for _ in range(3):
            await queue.get()
        ack = AckMessage("r", "e", "interrupt", {"resume_sample": 600, "played_ms": 195})
        queue.put(ack, WakeUps())
        answer = await queue.get()
        assert isinstance(answer, AckMessage)
        return answer

    assert asyncio.run(scenario()).result == {
        "sent_ms": 300,
        "sent_chars": 17,
        "resume_sample": 600,
        "heard_ms": 195,
        "heard_chars": 11,
    }


def test_an_answer_that_comes_after_the_end_is_read_before_it() -> None:
    queue = OutputQueue(1000, reports(1000), lambda _stage, _num_taken: None)
    end = OutputMessage("r", 0, None, finished=True)
    refused = ErrorMessage("r", "unknown_request", "it has ended", fatal=False, event_id="e")
    queue.put(chunk(0), WakeUps())
    queue.put(end, WakeUps())
    queue.put(refused, WakeUps())

    async def read() -> list[object]:
        return [await queue.get() for _ in range(3)]

    assert asyncio.run(read()) == [chunk(0), refused, end]
