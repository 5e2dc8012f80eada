"""Sparse-audio routing: which requests of a batch have output in this step, and where it lies.

In one step only some requests of a batch produce audio, so a stage model returns lists that cover a
subset of the batch and declares it with two metadata keys, nested (``{"meta": {"req_id": ...,
"sparse_audio": ...}}``) or flat (``"meta.req_id"``, ``"meta.sparse_audio"``):

- ``req_id``: the ids of the requests that have output, in list order;
- ``sparse_audio``: the marker "the lists follow ``req_id``, not the batch".

Rules:

- A marker's legal carriers are a list of strings, a bare string and ``None`` (absent). Anything
  else is a producer's bug. It is judged by its type alone and never read, compared or printed:
  reading a device tensor would stall the device.
- A declaration out of contract fails closed for audio: no payload is routed in that step. The gap
  shows in ``start_sample``, so the request is replayed or failed and never sounds like another one.
- Runners call `resolve_sparse_mm_routing` and `slice_payload` and nothing else.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeGuard

logger = logging.getLogger("voxloom.worker.sparse_audio")

AUDIO_OUTPUT_TYPE: Final = "audio"
TRUE_MARKERS: Final = frozenset({"1", "true", "yes", "on"})
REPORT_INTERVAL_S: Final = 60.0

META_KEY: Final = "meta"
META_PREFIX: Final = "meta."
REQ_ID_KEY: Final = "req_id"
MARKER_KEY: Final = "sparse_audio"

# An error names at most this many request ids, so that a large batch makes no large log line.
MAX_NAMED_IDS: Final = 3


class InvalidSparseDeclarationError(ValueError):
    """Sparse metadata is present but out of contract. `resolve_sparse_mm_routing` contains it."""


class PayloadLengthError(LookupError):
    """A payload list ends before the element that its declaration promised to a request.

    Only ``request_id`` is affected: the elements of the others are where the index says.
    """

    def __init__(self, request_id: str, key: str, position: int, num_elements: int) -> None:
        super().__init__(
            f"request {request_id!r}: payload list {key!r} has {num_elements} elements, "
            f"but the sparse declaration puts this request at position {position}"
        )
        self.request_id = request_id
        self.key = key
        self.position = position
        self.num_elements = num_elements


class UndeclaredRequestError(LookupError):
    """A payload was asked for a request that the step's declaration does not name."""

    def __init__(self, request_id: str) -> None:
        super().__init__(f"request {request_id!r} is not in the sparse index of this step")
        self.request_id = request_id


class CarrierLog:
    """Reports each offending carrier type once. Safe under threads.

    The names are kept for the life of the process; there are only as many as producers have types.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reported: set[str] = set()

    def report(self, type_name: str) -> None:
        """Log ``type_name`` at error level unless it was logged before."""
        with self._lock:
            if type_name in self._reported:
                return
            self._reported.add(type_name)
        logger.error(
            "sparse_audio marker has the illegal type %s; allowed: list of str, str, None "
            "(further markers of this type are not logged)",
            type_name,
        )


class FailClosedLog:
    """Reports refused steps at most once per interval, with the count held back.

    Safe under threads. ``clock`` returns monotonic seconds.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        interval_s: float = REPORT_INTERVAL_S,
    ) -> None:
        self._clock = clock
        self._interval_s = interval_s
        self._lock = threading.Lock()
        self._last_report_s: float | None = None
        self._num_suppressed = 0

    def report(self, reason: str) -> None:
        """Log ``reason`` at error level, or count it when the last report is too recent."""
        num_suppressed = self._admit()
        if num_suppressed is None:
            return
        logger.error(
            "invalid sparse-audio declaration, no payload routed in this step: %s "
            "(%d earlier reports suppressed)",
            reason,
            num_suppressed,
        )

    def _admit(self) -> int | None:
        with self._lock:
            now_s = self._clock()
            if self._last_report_s is not None and now_s - self._last_report_s < self._interval_s:
                self._num_suppressed += 1
                return None
            num_suppressed, self._num_suppressed = self._num_suppressed, 0
            self._last_report_s = now_s
            return num_suppressed


carrier_log = CarrierLog()
fail_closed_log = FailClosedLog()


class _Encoding(NamedTuple):
    """What one encoding holds; ``None`` stands for an absent key. Values are unchecked."""

    marker: object
    req_ids: object


def is_sparse_audio_marker(value: object) -> bool:
    """Whether ``value`` marks the lists beside it as following ``req_id``.

    True for a list or a bare string with an item among ``1 true yes on``, in any case. ``None`` and
    everything else in a legal carrier is False.

    Raises:
        InvalidSparseDeclarationError: ``value`` is no list of strings, string or ``None``. The type
            is logged at error level once; the value itself is not read.
    """
    if value is None:
        return False
    if isinstance(value, str):
        return value.lower() in TRUE_MARKERS
    if _is_string_list(value):
        return any(item.lower() in TRUE_MARKERS for item in value)
    type_name = _carrier_name(value)
    carrier_log.report(type_name)
    raise InvalidSparseDeclarationError(
        f"{MARKER_KEY} must be a list of str, a str or None, not {type_name}"
    )


def resolve_sparse_mm_req_ids(multimodal_outputs: object) -> list[str] | None:
    """The declared request ids in list order, as a new list, or ``None`` without a declaration.

    There is no declaration when the argument is no dict or no marker is true; then ``req_id`` is
    not looked at. An empty list is a declaration: this step has no output for anyone.

    Raises:
        InvalidSparseDeclarationError: a marker in an illegal carrier (on either side, whatever the
            other holds), markers that disagree, or a true marker whose ids are missing, no list of
            strings, different between the encodings, or repeated.
    """
    if not isinstance(multimodal_outputs, dict):
        return None
    encodings = (_nested_encoding(multimodal_outputs), _flat_encoding(multimodal_outputs))
    if not _agreed_marker(encodings):
        return None
    return _agreed_req_ids(encodings)


def resolve_sparse_mm_routing(
    *,
    engine_output_type: str | None,
    req_ids_output_copy: list[str],
    downstream_req_ids: list[str],
    multimodal_outputs: object,
) -> tuple[list[str], dict[str, int], bool]:
    """Who gets payload in this step, and where it lies: the only entry point for runners.

    Args:
        engine_output_type: what the stage emits; only ``"audio"`` is routed sparsely.
        req_ids_output_copy: the ids of the batch, in batch order.
        downstream_req_ids: the ids that get payload when nothing is declared.
        multimodal_outputs: what the stage model returned.

    Returns:
        ``(downstream_req_ids, sparse_mm_index, audio_sparse_output)``. The index holds the position
        of each declared id in the payload lists, ids outside the batch included.

        - valid declaration, audio: the declared ids of the batch in batch order, index, True;
        - no declaration, or another output type: the downstream ids as given, the index of whatever
          was declared, False;
        - invalid declaration: ``([], {}, True)`` for audio, ``(downstream_req_ids, {}, False)``
          otherwise.
    """
    is_audio = engine_output_type == AUDIO_OUTPUT_TYPE
    try:
        declared = resolve_sparse_mm_req_ids(multimodal_outputs)
    except InvalidSparseDeclarationError as error:
        if not is_audio:
            return downstream_req_ids, {}, False
        fail_closed_log.report(str(error))
        return [], {}, True
    index = {req_id: position for position, req_id in enumerate(declared or ())}
    if declared is None or not is_audio:
        return downstream_req_ids, index, False
    return [req_id for req_id in req_ids_output_copy if req_id in index], index, True


def slice_payload(
    multimodal_outputs: Mapping[str, object], index: Mapping[str, int], request_id: str
) -> dict[str, object]:
    """The element of ``request_id`` from every payload list, by key.

    ``index`` is the one that `resolve_sparse_mm_routing` returned for the same outputs. Metadata
    (``meta`` and ``meta.*``) is left out, and so is every value that is no list: it belongs to the
    step and not to one request.

    Raises:
        UndeclaredRequestError: the index does not name the request.
        PayloadLengthError: a list ends before the request's position.
    """
    position = index.get(request_id)
    if position is None:
        raise UndeclaredRequestError(request_id)
    return {
        key: _element(value, key, position, request_id)
        for key, value in multimodal_outputs.items()
        if isinstance(value, list) and not _is_metadata(key)
    }


def _element(values: list[object], key: str, position: int, request_id: str) -> object:
    # A negative position would wrap around to another request's element.
    if not 0 <= position < len(values):
        raise PayloadLengthError(request_id, key, position, len(values))
    return values[position]


def _is_metadata(key: str) -> bool:
    return key == META_KEY or key.startswith(META_PREFIX)


def _nested_encoding(outputs: dict[str, object]) -> _Encoding:
    meta = outputs.get(META_KEY)
    if not isinstance(meta, dict):
        return _Encoding(None, None)
    return _Encoding(meta.get(MARKER_KEY), meta.get(REQ_ID_KEY))


def _flat_encoding(outputs: dict[str, object]) -> _Encoding:
    return _Encoding(outputs.get(META_PREFIX + MARKER_KEY), outputs.get(META_PREFIX + REQ_ID_KEY))


def _agreed_marker(encodings: tuple[_Encoding, ...]) -> bool:
    """The truth of the markers. Reads both sides before judging, so each bad carrier is logged."""
    verdicts: list[bool] = []
    illegal: InvalidSparseDeclarationError | None = None
    for encoding in encodings:
        try:
            verdict = is_sparse_audio_marker(encoding.marker)
        except InvalidSparseDeclarationError as error:
            illegal = illegal or error
            continue
        if encoding.marker is not None:
            verdicts.append(verdict)
    if illegal is not None:
        raise illegal
    if len(set(verdicts)) > 1:
        raise InvalidSparseDeclarationError(f"nested and flat {MARKER_KEY} disagree")
    return any(verdicts)


def _agreed_req_ids(encodings: tuple[_Encoding, ...]) -> list[str]:
    present = [_checked_req_ids(e.req_ids) for e in encodings if e.req_ids is not None]
    if not present:
        raise InvalidSparseDeclarationError(f"{MARKER_KEY} is true but {REQ_ID_KEY} is missing")
    if any(req_ids != present[0] for req_ids in present[1:]):
        raise InvalidSparseDeclarationError(f"nested and flat {REQ_ID_KEY} differ")
    return present[0]


def _checked_req_ids(value: object) -> list[str]:
    """A copy of ``value``, which must be a list of distinct strings."""
    if not _is_string_list(value):
        raise InvalidSparseDeclarationError(
            f"{REQ_ID_KEY} must be a list of str, not {_carrier_name(value)}"
        )
    repeated = [req_id for req_id, count in Counter(value).items() if count > 1]
    if repeated:
        raise InvalidSparseDeclarationError(
            f"{REQ_ID_KEY} repeats {len(repeated)} ids, among them {repeated[:MAX_NAMED_IDS]}"
        )
    return list(value)


def _is_string_list(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _carrier_name(value: object) -> str:
    """The type of a deviant carrier; for a list, with the type of its first non-string item."""
    if isinstance(value, list):
        item = next(item for item in value if not isinstance(item, str))
        return f"list[{_type_name(item)}]"
    return _type_name(value)


def _type_name(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
