"""Documents with audio in them."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.errors import InvalidRequestError, PayloadTooLargeError
from server.large_json import MAX_REST_BYTES, MAX_REST_MARKS, SMALL_BYTES, read_object

AUDIO = base64.b64encode(bytes(range(256)) * 2000).decode()
URI = f"data:audio/wav;base64,{AUDIO}"


@pytest.mark.parametrize("escapes", [True, False])
@pytest.mark.parametrize(
    "value",
    [
        {"audio": AUDIO},
        {"a": [{"data": AUDIO}, {"url": URI}, "small", AUDIO + "=="], "b": 1},
        {"text": "A sentence, and another. " * 20_000},
        {"text": f'He said "{AUDIO}" and then "no".'},
        {"text": f"\\{AUDIO}", "é": f"é{AUDIO}"},
        {AUDIO: AUDIO},
        {"a": f":{AUDIO}", "b": [f", {AUDIO}", f"?{AUDIO}", AUDIO + "\x7f\t"]},
        {f"{AUDIO}x": {"a": [AUDIO]}},
        {"numbers": ["1"] * 90_000},
        {"blanks": " " * 400_000},
    ],
)
def test_a_large_document_is_read_as_a_small_one_is(value: Any, escapes: bool) -> None:
    for indent in (None, 2):
        data = json.dumps(value, ensure_ascii=escapes, indent=indent).encode()
        assert len(data) > SMALL_BYTES
        assert read_object(data) == value


# Texts are tuples of these, by number: Hypothesis shows what it draws, and refuses long ones.
PARTS = (AUDIO, URI, AUDIO[:70_000], '"', "\\", "é", ":", ",", "x y", "")
texts = st.lists(st.integers(0, len(PARTS) - 1), max_size=4).map(tuple)
# Keys are left where they are, and count towards what a document may hold besides long strings.
keys = st.lists(st.integers(2, len(PARTS) - 1), max_size=2).map(tuple)
values = st.recursive(
    texts | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=6,
)


def _spelled(numbered: Any) -> Any:
    match numbered:
        case tuple():
            return "".join(PARTS[place] for place in numbered)
        case list():
            return [_spelled(inner) for inner in numbered]
        case dict():
            return {_spelled(key): _spelled(inner) for key, inner in numbered.items()}
        case _:
            return numbered


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.dictionaries(keys, values, max_size=3))
def test_strings_of_any_kind_come_back_as_they_were(numbered: dict[Any, Any]) -> None:
    value = _spelled(numbered)
    assert read_object(json.dumps(value).encode()) == value


@pytest.mark.parametrize(
    "data",
    [
        f'{{"a": "b"{AUDIO}"c"}}',
        f'{{"a": {AUDIO}, "b": "c"}}',
        f'{{"audio": "{AUDIO}',
        f'["{AUDIO}"]',
        AUDIO,
        f'"{AUDIO}"',
        f'{{"a": "{AUDIO}"}}}}',
        f'{{"a": "{AUDIO}\n"}}',
    ],
)
def test_what_is_no_object_is_refused(data: str) -> None:
    with pytest.raises(InvalidRequestError):
        read_object(data.encode())


def test_only_long_strings_may_be_as_large_as_the_body() -> None:
    words = "some words\n" * (MAX_REST_BYTES // 11 + 1)
    with pytest.raises(PayloadTooLargeError, match=str(MAX_REST_BYTES)):
        read_object(json.dumps({"text": words, "audio": AUDIO}).encode())
    with pytest.raises(PayloadTooLargeError, match=str(MAX_REST_MARKS)):
        read_object(json.dumps({"list": [[]] * MAX_REST_MARKS}).encode())
    whole = {"audio": AUDIO * 30, "text": words[: MAX_REST_BYTES // 2]}
    assert read_object(json.dumps(whole).encode()) == whole
