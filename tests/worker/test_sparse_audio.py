import itertools
import logging
from collections.abc import Callable
from typing import NoReturn

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker import sparse_audio
from worker.sparse_audio import (
    CarrierLog,
    FailClosedLog,
    InvalidSparseDeclarationError,
    is_sparse_audio_marker,
    resolve_sparse_mm_req_ids,
    resolve_sparse_mm_routing,
    slice_payload,
)

LOGGER = "voxloom.worker.sparse_audio"


class Untouchable:
    """Stands in for a device tensor: every way of reading it fails."""

    def _touched(self, *_args: object) -> NoReturn:
        pytest.fail("a deviant carrier was read")

    __getitem__ = __iter__ = __len__ = __bool__ = __contains__ = __array__ = _touched
    __eq__ = __hash__ = __repr__ = __str__ = __int__ = __float__ = __index__ = _touched
    item = tolist = cpu = numpy = to = any = all = _touched


TRUE_CARRIERS: list[object] = [
    ["1"],
    ["true"],
    ["yes"],
    ["on"],
    ["TRUE"],
    ["Yes"],
    ["oN"],
    ["0", "1"],
    ["", "no", "on"],
    "1",
    "true",
    "YES",
    "On",
    np.str_("1"),
]
FALSE_CARRIERS: list[object] = [
    [],
    [""],
    ["0"],
    ["false", "no", "off"],
    ["11"],
    [" 1"],
    ["1 "],
    ["y"],
    ["yeſ"],
    "",
    "0",
    "1 0",
    "enabled",
    "１",
]
ILLEGAL_CARRIERS: list[object] = [
    True,
    False,
    1,
    0,
    1.0,
    ("1",),
    (),
    {"1"},
    {"1": "1"},
    b"1",
    bytearray(b"1"),
    np.array(["1"]),
    np.array([1]),
    np.bool_(True),
    object(),
    iter(["1"]),
    [True],
    [1],
    [None],
    [b"1"],
    [["1"]],
    ["1", 1],
    ["1", None],
    Untouchable(),
    [Untouchable()],
    ["1", Untouchable()],
]
MALFORMED_IDS: list[object] = [
    None,
    "a",
    b"a",
    3,
    True,
    ("a",),
    {"a"},
    {"a": 0},
    np.array(["a"]),
    Untouchable(),
    [1],
    ["a", None],
    [Untouchable()],
    ["a", Untouchable()],
    ["a", "a"],
    ["a", "b", "a"],
]
LEGAL_CARRIERS = [None, *TRUE_CARRIERS, *FALSE_CARRIERS]


@pytest.fixture(autouse=True)
def _fresh_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse_audio, "carrier_log", CarrierLog())
    monkeypatch.setattr(sparse_audio, "fail_closed_log", FailClosedLog(clock=lambda: 0.0))


def _nested(marker: object = None, req_ids: object = None) -> dict[str, object]:
    return {"meta": {"sparse_audio": marker, "req_id": req_ids}}


def _flat(marker: object = None, req_ids: object = None) -> dict[str, object]:
    return {"meta.sparse_audio": marker, "meta.req_id": req_ids}


def _both(
    nested: tuple[object, object] = (None, None), flat: tuple[object, object] = (None, None)
) -> dict[str, object]:
    return {**_nested(*nested), **_flat(*flat)}


def _route(
    outputs: object, *, output_type: str | None = "audio"
) -> tuple[list[str], dict[str, int], bool]:
    return resolve_sparse_mm_routing(
        engine_output_type=output_type,
        req_ids_output_copy=["a", "b", "c"],
        downstream_req_ids=["b", "c"],
        multimodal_outputs=outputs,
    )


ENCODINGS: list[Callable[[object, object], dict[str, object]]] = [_nested, _flat]


def _name(value: object) -> str:
    return type(value).__name__


class TestMarker:
    @pytest.mark.parametrize("carrier", TRUE_CARRIERS, ids=_name)
    def test_an_item_among_the_true_words_is_true(self, carrier: object) -> None:
        assert is_sparse_audio_marker(carrier) is True

    @pytest.mark.parametrize("carrier", [None, *FALSE_CARRIERS], ids=_name)
    def test_everything_else_in_a_legal_carrier_is_false(self, carrier: object) -> None:
        assert is_sparse_audio_marker(carrier) is False

    @pytest.mark.parametrize("carrier", ILLEGAL_CARRIERS, ids=_name)
    def test_any_other_carrier_raises(self, carrier: object) -> None:
        with pytest.raises(InvalidSparseDeclarationError, match="must be a list of str"):
            is_sparse_audio_marker(carrier)

    @given(st.lists(st.text()))
    def test_only_the_four_words_are_true(self, items: list[str]) -> None:
        expected = any(item.lower() in ("1", "true", "yes", "on") for item in items)
        assert is_sparse_audio_marker(items) is expected

    def test_each_offending_type_is_logged_once(self, caplog: pytest.LogCaptureFixture) -> None:
        for _ in range(3):
            for carrier in (True, 1, ("1",), [1], [None], Untouchable()):
                with pytest.raises(InvalidSparseDeclarationError):
                    is_sparse_audio_marker(carrier)
        assert [record.levelno for record in caplog.records] == [logging.ERROR] * 6
        assert {record.name for record in caplog.records} == {LOGGER}
        named = [str(record.args[0]) for record in caplog.records if isinstance(record.args, tuple)]
        assert named[:5] == ["bool", "int", "tuple", "list[int]", "list[NoneType]"]
        assert named[5].endswith("test_sparse_audio.Untouchable")

    def test_legal_carriers_log_nothing(self, caplog: pytest.LogCaptureFixture) -> None:
        for carrier in LEGAL_CARRIERS:
            is_sparse_audio_marker(carrier)
        assert not caplog.records


class TestDeclaration:
    @pytest.mark.parametrize(
        "outputs", [None, [], ["1"], "meta", 1, Untouchable(), (("meta", {}),)], ids=_name
    )
    def test_what_is_no_dict_declares_nothing(self, outputs: object) -> None:
        assert resolve_sparse_mm_req_ids(outputs) is None

    @pytest.mark.parametrize("meta", [None, [], "1", ["1"], 3, Untouchable()], ids=_name)
    def test_a_meta_that_is_no_dict_is_no_nested_side(self, meta: object) -> None:
        assert resolve_sparse_mm_req_ids({"meta": meta}) is None
        assert resolve_sparse_mm_req_ids({"meta": meta, **_flat(["1"], ["a"])}) == ["a"]

    @pytest.mark.parametrize("encode", ENCODINGS, ids=["nested", "flat"])
    @pytest.mark.parametrize("marker", [None, *FALSE_CARRIERS], ids=_name)
    @pytest.mark.parametrize("req_ids", [None, ["a", "a"], [1], 7, Untouchable()], ids=_name)
    def test_without_a_true_marker_ids_are_not_looked_at(
        self, encode: Callable[[object, object], object], marker: object, req_ids: object
    ) -> None:
        assert resolve_sparse_mm_req_ids(encode(marker, req_ids)) is None

    @pytest.mark.parametrize("outputs", [{}, {"meta": {}}, {"model_outputs": [1]}])
    def test_absent_keys_declare_nothing(self, outputs: object) -> None:
        assert resolve_sparse_mm_req_ids(outputs) is None

    @pytest.mark.parametrize("encode", ENCODINGS, ids=["nested", "flat"])
    @pytest.mark.parametrize("marker", TRUE_CARRIERS, ids=_name)
    @pytest.mark.parametrize("req_ids", [[], ["a"], ["c", "a", "zz"]])
    def test_a_true_marker_gives_a_copy_of_the_ids_in_list_order(
        self,
        encode: Callable[[object, object], object],
        marker: object,
        req_ids: list[str],
    ) -> None:
        resolved = resolve_sparse_mm_req_ids(encode(marker, req_ids))
        assert resolved == req_ids
        assert resolved is not req_ids

    @pytest.mark.parametrize("encode", ENCODINGS, ids=["nested", "flat"])
    @pytest.mark.parametrize(
        "req_ids",
        MALFORMED_IDS,
        ids=_name,
    )
    def test_a_true_marker_needs_a_list_of_distinct_strings(
        self, encode: Callable[[object, object], object], req_ids: object
    ) -> None:
        with pytest.raises(InvalidSparseDeclarationError, match="req_id"):
            resolve_sparse_mm_req_ids(encode(["1"], req_ids))

    @pytest.mark.parametrize(
        ("nested", "flat"),
        [
            ((["1"], ["a"]), (None, None)),
            ((["1"], None), (None, ["a"])),
            ((None, ["a"]), (["1"], None)),
            ((None, None), (["1"], ["a"])),
            ((["1"], ["a"]), (None, ["a"])),
            ((["1"], ["a"]), ("YES", ["a"])),
            ((None, ["a"]), (["on"], ["a"])),
        ],
    )
    def test_marker_and_ids_may_come_from_either_encoding(
        self, nested: tuple[object, object], flat: tuple[object, object]
    ) -> None:
        assert resolve_sparse_mm_req_ids(_both(nested, flat)) == ["a"]

    @pytest.mark.parametrize(
        ("nested_ids", "flat_ids"),
        [
            (["a"], ["b"]),
            (["a", "b"], ["b", "a"]),
            (["a"], []),
            ([], ["a"]),
            (["a"], ["a", "b"]),
            (["a"], ("a",)),
            ("a", ["a"]),
            (["a"], [1]),
            (["a", "a"], ["a", "a"]),
            (Untouchable(), ["a"]),
            (["a"], Untouchable()),
            (None, None),
        ],
    )
    def test_ids_that_differ_or_are_malformed_in_one_encoding_raise(
        self, nested_ids: object, flat_ids: object
    ) -> None:
        for markers in ((["1"], None), (None, ["1"]), (["1"], ["1"])):
            outputs = _both((markers[0], nested_ids), (markers[1], flat_ids))
            with pytest.raises(InvalidSparseDeclarationError):
                resolve_sparse_mm_req_ids(outputs)

    def test_every_pair_of_carriers_follows_the_rules(self) -> None:
        carriers = [None, *TRUE_CARRIERS, *FALSE_CARRIERS, *ILLEGAL_CARRIERS]
        kinds = (
            ["absent"]
            + ["true"] * len(TRUE_CARRIERS)
            + ["false"] * len(FALSE_CARRIERS)
            + ["illegal"] * len(ILLEGAL_CARRIERS)
        )
        labelled = list(zip(carriers, kinds, strict=True))
        for (nested, nested_kind), (flat, flat_kind) in itertools.product(labelled, labelled):
            pair = {nested_kind, flat_kind}
            outputs = _both((nested, ["a"]), (flat, ["a"]))
            if "illegal" in pair:
                with pytest.raises(InvalidSparseDeclarationError, match="must be"):
                    resolve_sparse_mm_req_ids(outputs)
            elif pair == {"true", "false"}:
                with pytest.raises(InvalidSparseDeclarationError, match="disagree"):
                    resolve_sparse_mm_req_ids(outputs)
            else:
                expected = ["a"] if "true" in pair else None
                assert resolve_sparse_mm_req_ids(outputs) == expected

    def test_an_empty_nested_marker_disagrees_with_a_true_flat_one(self) -> None:
        with pytest.raises(InvalidSparseDeclarationError, match="disagree"):
            resolve_sparse_mm_req_ids(_both(([], ["a"]), (["1"], ["a"])))

    def test_bad_carriers_on_both_sides_are_both_logged(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        with pytest.raises(InvalidSparseDeclarationError):
            resolve_sparse_mm_req_ids(_both((True, ["a"]), (b"1", ["a"])))
        assert len(caplog.records) == 2


class TestRouting:
    def test_declared_ids_of_the_batch_come_in_batch_order(self) -> None:
        assert _route(_nested(["1"], ["c", "a"])) == (["a", "c"], {"c": 0, "a": 1}, True)

    def test_the_batch_and_not_the_downstream_ids_decides(self) -> None:
        assert _route(_flat(["1"], ["a"])) == (["a"], {"a": 0}, True)

    def test_ids_outside_the_batch_keep_their_position(self) -> None:
        assert _route(_nested(["1"], ["zz", "b"])) == (["b"], {"zz": 0, "b": 1}, True)

    def test_an_empty_declaration_routes_nothing_and_is_no_error(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        assert _route(_nested(["1"], [])) == ([], {}, True)
        assert not caplog.records

    @pytest.mark.parametrize("outputs", [None, {}, "x", _nested([], ["a"]), _flat("0", [1])])
    @pytest.mark.parametrize("output_type", ["audio", "text", None])
    def test_no_declaration_leaves_the_downstream_ids(
        self, outputs: object, output_type: str | None
    ) -> None:
        assert _route(outputs, output_type=output_type) == (["b", "c"], {}, False)

    @pytest.mark.parametrize("output_type", ["text", "latent", "Audio", "", None])
    def test_other_output_types_stay_dense_with_the_declared_index(
        self, output_type: str | None
    ) -> None:
        routed = _route(_nested(["1"], ["c", "zz"]), output_type=output_type)
        assert routed == (["b", "c"], {"c": 0, "zz": 1}, False)

    @pytest.mark.parametrize("carrier", ILLEGAL_CARRIERS, ids=_name)
    @pytest.mark.parametrize("encode", ENCODINGS, ids=["nested", "flat"])
    def test_an_illegal_carrier_fails_closed_for_audio_only(
        self, encode: Callable[[object, object], object], carrier: object
    ) -> None:
        outputs = encode(carrier, ["a"])
        assert _route(outputs) == ([], {}, True)
        assert _route(outputs, output_type="text") == (["b", "c"], {}, False)

    @pytest.mark.parametrize(
        "outputs",
        [
            _nested(["1"]),
            _nested(["1"], ["a", "a"]),
            _flat(["1"], "a"),
            _both((["1"], ["a"]), (["0"], ["a"])),
            _both((["1"], ["a"]), (["1"], ["b"])),
        ],
    )
    def test_a_broken_declaration_fails_closed_for_audio_only(self, outputs: object) -> None:
        assert _route(outputs) == ([], {}, True)
        assert _route(outputs, output_type="text") == (["b", "c"], {}, False)

    def test_the_arguments_are_not_changed(self) -> None:
        batch, downstream, declared = ["a", "b"], ["b"], ["b"]
        routed, _, _ = resolve_sparse_mm_routing(
            engine_output_type="audio",
            req_ids_output_copy=batch,
            downstream_req_ids=downstream,
            multimodal_outputs=_nested(["1"], declared),
        )
        routed.append("x")
        assert (batch, downstream, declared) == (["a", "b"], ["b"], ["b"])

    @given(
        batch=st.lists(st.text("abcdef", min_size=1), unique=True),
        declared=st.lists(st.text("abcdef", min_size=1), unique=True),
    )
    def test_each_routed_request_gets_its_own_element(
        self, batch: list[str], declared: list[str]
    ) -> None:
        outputs = {**_nested(["1"], declared), "audio": [f"audio of {req}" for req in declared]}
        routed, index, is_sparse = resolve_sparse_mm_routing(
            engine_output_type="audio",
            req_ids_output_copy=batch,
            downstream_req_ids=[],
            multimodal_outputs=outputs,
        )
        assert is_sparse
        assert routed == [req for req in batch if req in declared]
        for req in routed:
            assert slice_payload(outputs, index, req) == {"audio": f"audio of {req}"}
