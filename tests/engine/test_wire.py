"""The wire form: what goes in comes out, and nothing else is taken."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.messages import (
    Fingerprint,
    Hello,
    OutputRow,
    Ping,
    SamplingParams,
    StageOutput,
    StageRequest,
    StageUpdate,
)
from engine.wire import MessageDecodeError, decode_from_replica, decode_to_replica, encode

DTYPES = ["float32", "int64", "int16", "uint8", "bool"]


@given(
    shape=st.lists(st.integers(0, 5), max_size=3),
    dtype=st.sampled_from(DTYPES),
    depth=st.integers(0, 2),
)
def test_arrays_of_any_shape_survive_at_any_depth(shape: list[int], dtype: str, depth: int) -> None:
    array = np.arange(int(np.prod(shape)), dtype="int64").astype(dtype).reshape(shape)
    payload: object = array
    for _ in range(depth):
        payload = {"inner": [payload]}
    message = StageUpdate("r", 0, {"value": payload})
    decoded = decode_to_replica(encode(message))
    assert isinstance(decoded, StageUpdate)
    result = decoded.payload["value"]
    for _ in range(depth):
        result = result["inner"][0]
    assert result.dtype == array.dtype
    assert result.shape == array.shape
    assert np.array_equal(result, array)


def test_an_array_that_is_not_contiguous_is_sent_in_its_own_order() -> None:
    array = np.arange(12).reshape(3, 4)[:, ::2]
    decoded = decode_to_replica(encode(StageUpdate("r", 0, {"a": array})))
    assert isinstance(decoded, StageUpdate)
    assert np.array_equal(decoded.payload["a"], array)


def test_each_array_travels_in_a_frame_of_its_own() -> None:
    rows = [OutputRow(f"r{i}", {"audio": np.zeros(10, np.int16)}) for i in range(3)]
    frames = encode(StageOutput(rows, 3, 3, 1.0))
    assert [len(frame) for frame in frames[1:]] == [20, 20, 20]


def test_numpy_scalars_become_plain_numbers() -> None:
    decoded = decode_to_replica(encode(StageUpdate("r", 0, {"n": np.float32(0.5)})))
    assert isinstance(decoded, StageUpdate)
    assert decoded.payload == {"n": 0.5}


def test_text_with_any_character_survives() -> None:
    request = StageRequest("r", {"text": "a\x00\u200b\U0001f600"}, SamplingParams(seed=-1), 5)
    assert decode_to_replica(encode(request)) == request


def test_what_a_message_cannot_carry_is_refused_before_it_is_sent() -> None:
    with pytest.raises(TypeError, match="cannot carry"):
        encode(StageUpdate("r", 0, {"value": object()}))


def test_hello_survives_with_its_fingerprint() -> None:
    hello = Hello("a", 0, 1, Fingerprint("ab", "avx", {"numpy": "2"}, 1))
    assert decode_from_replica(encode(hello)) == hello


@pytest.mark.parametrize(
    "frames",
    [
        [b""],
        [b"\xff\xff"],
        [msgspec.msgpack.encode({"msg": "unknown"})],
        [msgspec.msgpack.encode({"msg": "ping", "seq": 1, "more": 2})],
        [msgspec.msgpack.encode({"msg": "ping"})],
        [msgspec.msgpack.encode({"msg": "ping", "seq": "one"})],
        [encode(StageUpdate("r", 0, {"a": np.zeros(4)}))[0]],
    ],
)
def test_frames_that_are_no_message_are_refused(frames: list[bytes]) -> None:
    with pytest.raises(MessageDecodeError):
        decode_to_replica(frames)


def test_a_message_for_the_other_direction_is_refused() -> None:
    with pytest.raises(MessageDecodeError):
        decode_from_replica(encode(Ping(1)))


@given(st.lists(st.binary(max_size=60), min_size=1, max_size=3))
def test_random_frames_never_do_anything_but_be_refused(frames: list[bytes]) -> None:
    with pytest.raises(MessageDecodeError):
        decode_from_replica(frames)


def test_threads_that_decode_at_once_each_get_their_own_arrays() -> None:
    messages = [StageUpdate("r", i, {"a": np.full(1000, i)}) for i in range(4)]
    start = threading.Barrier(len(messages))

    def decode_often(message: StageUpdate) -> bool:
        frames = encode(message)
        start.wait()
        decoded = [decode_to_replica(frames) for _ in range(200)]
        return all(
            isinstance(one, StageUpdate) and np.array_equal(one.payload["a"], message.payload["a"])
            for one in decoded
        )

    with ThreadPoolExecutor(len(messages)) as threads:
        assert all(threads.map(decode_often, messages))


def test_frames_that_are_not_there_are_no_message() -> None:
    frames = encode(StageUpdate("r", 0, {"a": np.zeros(3)}))
    assert isinstance(decode_to_replica(frames), StageUpdate)
    with pytest.raises(MessageDecodeError):
        decode_to_replica(frames[:1])
