"""Device tensors as deviant carriers.

A tensor on ``meta`` has no data, so reading an element raises.
"""

import pytest
import torch

from worker.sparse_audio import (
    InvalidSparseDeclarationError,
    is_sparse_audio_marker,
    resolve_sparse_mm_routing,
    slice_payload,
)

pytestmark = pytest.mark.torch


def _meta_tensor() -> torch.Tensor:
    return torch.ones(2, dtype=torch.int64, device="meta")


def test_reading_a_meta_tensor_raises() -> None:
    with pytest.raises((RuntimeError, NotImplementedError)):
        bool(_meta_tensor()[0])


def test_a_device_tensor_is_refused_without_being_read() -> None:
    for carrier in (_meta_tensor(), [_meta_tensor()], ["1", _meta_tensor()]):
        with pytest.raises(InvalidSparseDeclarationError, match=r"torch\.Tensor"):
            is_sparse_audio_marker(carrier)


def test_device_tensors_in_the_metadata_fail_closed() -> None:
    tensor = _meta_tensor()
    for meta in (
        {"sparse_audio": tensor, "req_id": ["a"]},
        {"sparse_audio": ["1"], "req_id": tensor},
        {"sparse_audio": ["1"], "req_id": ["a", tensor]},
    ):
        routed = resolve_sparse_mm_routing(
            engine_output_type="audio",
            req_ids_output_copy=["a"],
            downstream_req_ids=["a"],
            multimodal_outputs={"meta": meta, "meta.sparse_audio": tensor},
        )
        assert routed == ([], {}, True)


def test_a_device_tensor_payload_is_handed_over_unread() -> None:
    tensor = _meta_tensor()
    assert slice_payload({"audio": [None, tensor]}, {"a": 1}, "a")["audio"] is tensor
