import pytest

from worker.sparse_audio import (
    PayloadLengthError,
    UndeclaredRequestError,
    resolve_sparse_mm_routing,
    slice_payload,
)


def _index(outputs: dict[str, object]) -> dict[str, int]:
    _, index, _ = resolve_sparse_mm_routing(
        engine_output_type="audio",
        req_ids_output_copy=["a", "b", "c"],
        downstream_req_ids=[],
        multimodal_outputs=outputs,
    )
    return index


@pytest.fixture
def outputs() -> dict[str, object]:
    return {
        "meta": {"req_id": ["b", "a"], "sparse_audio": ["1"]},
        "meta.req_id": ["b", "a"],
        "meta.sparse_audio": ["1"],
        "meta.other": ["x", "y"],
        "audio": ["audio b", "audio a"],
        "start_sample": [480, 0],
    }


def test_takes_the_requests_element_of_every_list(outputs: dict[str, object]) -> None:
    index = _index(outputs)
    assert slice_payload(outputs, index, "a") == {"audio": "audio a", "start_sample": 0}
    assert slice_payload(outputs, index, "b") == {"audio": "audio b", "start_sample": 480}


def test_the_element_is_handed_over_as_it_is() -> None:
    element = object()
    assert slice_payload({"audio": [None, element]}, {"a": 1}, "a")["audio"] is element


def test_values_of_the_whole_step_are_left_out(outputs: dict[str, object]) -> None:
    outputs |= {"hidden": object(), "rate": 24000, "name": "ab", "pair": ("p", "q")}
    assert set(slice_payload(outputs, {"a": 1}, "a")) == {"audio", "start_sample"}


def test_a_short_list_fails_the_request_behind_its_end_only(outputs: dict[str, object]) -> None:
    outputs["audio"] = ["audio b"]
    index = _index(outputs)
    assert slice_payload(outputs, index, "b")["audio"] == "audio b"
    with pytest.raises(PayloadLengthError) as caught:
        slice_payload(outputs, index, "a")
    error = caught.value
    assert (error.request_id, error.key, error.position, error.num_elements) == (
        "a",
        "audio",
        1,
        1,
    )
    assert "'a'" in str(error)
    assert "'audio'" in str(error)


def test_an_empty_list_gives_nobody_an_element() -> None:
    with pytest.raises(PayloadLengthError):
        slice_payload({"audio": []}, {"a": 0}, "a")


def test_a_negative_position_does_not_wrap_around() -> None:
    with pytest.raises(PayloadLengthError):
        slice_payload({"audio": ["audio b"]}, {"a": -1}, "a")


def test_an_undeclared_request_gets_no_default(outputs: dict[str, object]) -> None:
    index = _index(outputs)
    with pytest.raises(UndeclaredRequestError, match="'c'"):
        slice_payload(outputs, index, "c")
