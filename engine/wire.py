"""The wire form of messages: a list of frames.

Frame 0 is msgpack of a tagged ``Struct``; each numpy array inside it travels as a raw frame of its
own and is replaced in frame 0 by an extension value (frame number, dtype, shape). Unknown fields
and unknown tags are errors.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec
import numpy as np

from engine.messages import FromReplica, ToReplica

Frame: TypeAlias = bytes | memoryview
T = TypeVar("T")

_ARRAY_EXT = 1


class MessageDecodeError(ValueError):
    """Frames that are not a message of this protocol."""


def encode(message: ToReplica | FromReplica) -> list[Frame]:
    """Frames of a message. Array frames share the arrays' memory: do not write to them after.

    Raises ``TypeError``, ``ValueError`` or ``OverflowError`` for what no message can carry.
    """
    return encode_value(message)


def encode_value(value: Any) -> list[Frame]:
    """Frames of anything that a message may hold; see ``encode``."""
    frames: list[Frame] = [b""]

    def hook(value: object) -> object:
        if isinstance(value, np.ndarray):
            array = np.ascontiguousarray(value)
            frames.append(array.reshape(-1).view(np.uint8).data)
            head = (len(frames) - 1, array.dtype.str, value.shape)
            return msgspec.msgpack.Ext(_ARRAY_EXT, msgspec.msgpack.encode(head))
        if isinstance(value, np.generic):
            return value.item()
        raise TypeError(f"a message cannot carry {type(value).__name__}")

    frames[0] = msgspec.msgpack.encode(value, enc_hook=hook)
    return frames


def decode_value(frames: Sequence[Frame], kind: Any) -> Any:
    """What ``encode_value`` made frames of. Raises ``MessageDecodeError``, whatever the frames."""
    return _decode(frames, msgspec.msgpack.Decoder(kind, ext_hook=_array))


def decode_to_replica(frames: Sequence[Frame]) -> ToReplica:
    """A message for a replica. Raises ``MessageDecodeError``. Arrays are read-only views."""
    return _decode(frames, _to_replica)


def decode_from_replica(frames: Sequence[Frame]) -> FromReplica:
    """A message of a replica. Raises ``MessageDecodeError``. Arrays are read-only views."""
    return _decode(frames, _from_replica)


class _Decoding(threading.local):
    """The frames of the message that this thread decodes: a decoder's hook is not told them."""

    frames: Sequence[Frame] = ()


_decoding = _Decoding()


def _array(code: int, data: memoryview) -> object:
    if code != _ARRAY_EXT:
        raise MessageDecodeError(f"unknown extension {code}")
    number, dtype, shape = _head.decode(data)
    return np.frombuffer(_decoding.frames[number], np.dtype(dtype)).reshape(shape)


# Made once: to make one for a union of messages takes five times as long as to read a message.
_head = msgspec.msgpack.Decoder(tuple[int, str, tuple[int, ...]])
_to_replica: msgspec.msgpack.Decoder[ToReplica] = msgspec.msgpack.Decoder(
    ToReplica, ext_hook=_array
)
_from_replica: msgspec.msgpack.Decoder[FromReplica] = msgspec.msgpack.Decoder(
    FromReplica, ext_hook=_array
)


def _decode(frames: Sequence[Frame], decoder: msgspec.msgpack.Decoder[T]) -> T:
    _decoding.frames = frames
    try:
        return decoder.decode(frames[0])
    except Exception as error:  # nested too deep, a dtype that is no dtype: all of it is garbage
        raise MessageDecodeError(f"not a message of this protocol: {error}") from error
    finally:
        _decoding.frames = ()
