"""The doctor on broken models."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from doctor_cases import FLOAT, TWO, add_body, examine, model_of, node
from onnx import TensorProto, helper

import myops.onnx
from myops import _description
from myops.ort import _doctor
from myops.ort._doctor import DoctorReport, Finding, libraries
from myops.ort._doctor.graph import Provided
from myops.ort._doctor.messages import explain
from myops.ort._doctor.rules import MessageContext

UINT8, INT64, DOUBLE = TensorProto.UINT8, TensorProto.INT64, TensorProto.DOUBLE
BFLOAT16 = TensorProto.BFLOAT16
PICTURE = {"x": (FLOAT, [1, 1, 4, 4]), "s": (FLOAT, [4])}


def found(report: DoctorReport, code: str) -> Finding:
    """The finding with a code; fails with the whole report when there is none."""
    matching = [finding for finding in report.findings if finding.code == code]
    assert matching, f"no {code} in: {report}"
    return matching[0]


def words(finding: Finding) -> str:
    return " ".join((finding.what, finding.why, finding.fix, finding.message, *finding.nodes))


BROKEN: dict[str, tuple[Any, str, list[str]]] = {
    "domain of no library": (
        model_of([node("Foo", domain="acme")], TWO, opsets=[("", 19), ("acme", 1)]),
        "domain-unknown", ["'acme'", "--library", "it (acme::Foo)", "not a registered function"],
    ),
    "domain nearly right": (
        model_of([node("MyAdd", domain="myop")], TWO, opsets=[("", 19), ("myop", 1)]),
        "domain-unknown", ["Did you mean 'myops'?"],
    ),
    "domain of a known library": (
        model_of([node("DecodeImage", domain="com.microsoft.extensions")], TWO,
                 opsets=[("", 19), ("com.microsoft.extensions", 1)]),
        "domain-unknown", ["pip install onnxruntime-extensions"],
    ),
    "domain not imported": (
        model_of([node("Foo", domain="acme")], TWO),
        "domain-not-imported", ["make_opsetid('acme', 1)"],
    ),
    "op nearly right": (
        model_of([node("Resise", "a - b", domain="myops")], TWO),
        "op-unknown", ["no op 'Resise'", "Did you mean 'Resize'?", "it (myops::Resise)"],
    ),
    "op without its domain": (
        model_of([node("MyAdd")], TWO),
        "op-unknown", ["no standard operator 'MyAdd'", "The domain 'myops' has an op of that"],
    ),
    "standard op nearly right": (
        model_of([node("Rulu", "a")], TWO), "op-unknown", ["'Relu'", "No Op registered for"],
    ),
    "standard op of a later opset": (
        model_of([node("Gelu", "a")], TWO), "op-too-new", ["opset 20; the model imports 19"],
    ),
    "domain version that is not there": (
        model_of([node("MyAdd", domain="myops")], TWO, opsets=[("", 19), ("myops", 0)]),
        "domain-version", ["version 0", "has version 1 and later", "not a registered function"],
    ),
    "opset newer than the runtime": (
        model_of([node("Add")], TWO, opsets=[("", 99)]),
        "opset-too-new", ["opset 99 of ai.onnx", "convert_version", "under development"],
    ),
    "opset older than the kernels": (
        model_of([node("Add")], TWO, opsets=[("", 6)]),
        "kernel-missing", ["Add of opset 6 for float32", "only from opset 7 or later"],
    ),
    "no opset": (model_of([node("Add")], TWO, opsets=[]), "opset-missing", ["make_opsetid"]),
    "IR version newer than the runtime": (
        model_of([node("Add")], TWO, ir_version=99),
        "ir-too-new", ["IR version 99", "model.ir_version = 9", "max supported IR version"],
    ),
    "bfloat16 for a standard kernel": (
        model_of([node("Conv", "x w")], {"x": (BFLOAT16, [1, 1, 2, 2]),
                 "w": (BFLOAT16, [1, 1, 1, 1])}, {"c": (BFLOAT16, None)}, opsets=[("", 22)]),
        "kernel-missing", ["Conv of opset 22 for bfloat16", "kernels for float32"],
    ),
    "strings for Relu": (
        model_of([node("Relu", "x")], {"x": (TensorProto.STRING, [2])},
                 {"c": (TensorProto.STRING, None)}),
        "dtype-unsupported", ["Relu does not take string", "bfloat16, float16, float32"],
    ),
    "mixed dtypes for a kernel of ours": (
        model_of([node("MyAdd", domain="myops")], {"a": (FLOAT, [2]), "b": (DOUBLE, [2])}),
        "dtype-unsupported", ["mix of dtypes: a float32, b float64", "no kernel def matches"],
    ),
    "mixed dtypes": (
        model_of([node("Add")], {"a": (FLOAT, [2]), "b": (DOUBLE, [2])}),
        "dtype-mixed", ["Add got float32 and float64", "x.to(torch.float32)"],
    ),
    "an output's dtype misstated": (
        model_of([node("Add")], TWO, {"c": (INT64, [2])}),
        "dtype-misstated", ["'c' is int64, but it is float32"],
    ),
    "required input missing": (
        model_of([node("MyAdd", "a", domain="myops")], TWO),
        "input-missing", ["myops::MyAdd: the input b is missing", "not in range"],
    ),
    "required input empty": (
        model_of([node("MyAdd", "a -", domain="myops")], TWO),
        "input-missing", ["the input b is missing", "marked single but has an empty string"],
    ),
    "standard op with too many inputs": (
        model_of([node("Add", "a b a")], TWO), "input-too-many", ["Add got 3 inputs", "takes 2"],
    ),
    "neither scales nor sizes": (
        model_of([node("Resize", "x", domain="myops")], PICTURE),
        "kernel-refuses", ["scales, sizes: got neither", "it (myops::Resize)"],
    ),
    "an attribute's value": (
        model_of([node("Resize", "x - s", domain="myops", mode="cubicc")], PICTURE),
        "kernel-refuses", ['mode: got "cubicc"', "Exception during initialization"],
    ),
    "shapes that a kernel of ours refuses": (
        model_of([node("MyAdd", domain="myops")], {"a": (FLOAT, [2]), "b": (FLOAT, [3])}),
        "kernel-refuses", ["my_add: b: got length 3 on axis 0"],
    ),
    "shapes that do not fit": (
        model_of([node("Add")], {"a": (FLOAT, [2]), "b": (FLOAT, [3])}),
        "shape-mismatch", ["Incompatible dimensions", "it (Add)"],
    ),
    "a value that nothing makes": (
        model_of([node("Add", "a bb")], TWO),
        "value-undefined", ["'bb'", "Did you mean 'b'", "is not a graph input, initializer"],
    ),
    "an output that nothing makes": (
        model_of([node("Add", "a b", "d")], TWO), "value-undefined", ["'c'", "does not exist"],
    ),
    "required attribute missing": (
        model_of([node("Concat")], TWO), "attribute-missing", ["Concat needs the attribute 'axis'"],
    ),
    "unknown attribute": (
        model_of([node("Relu", "a", alpha=1.0)], TWO),
        "attribute-unknown", ["Relu has no attribute 'alpha'"],
    ),
    "one name twice": (
        model_of([node("Relu", "a"), node("Relu", "b", name="other")], TWO),
        "value-twice", ["'c' is made more than once", "it (Relu)", "other (Relu)"],
    ),
    "a name of two nodes": (
        model_of([node("Relu", "d"), node("Relu", "c", "d")], TWO), "node-twice", ["'it'"],
    ),
    "a circle": (
        model_of([node("Add", "a d"), node("Relu", "c", "d", name="")], TWO), "cycle", ["circle"],
    ),
    "inside a branch": (
        model_of(
            [node("If", "p", then_branch=helper.make_graph(
                [node("Foo", "a", "y", "acme", name="deep")], "t", [],
                [helper.make_tensor_value_info("y", FLOAT, None)]),
                else_branch=helper.make_graph(
                [node("Relu", "a", "z", name="else")], "e", [],
                [helper.make_tensor_value_info("z", FLOAT, None)]))],
            {**TWO, "p": (TensorProto.BOOL, [])}, opsets=[("", 19), ("acme", 1)]),
        "domain-unknown", ["deep (acme::Foo), in then_branch of it"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_each_fault_of_a_model_is_named(name: str) -> None:
    model, code, expected = BROKEN[name]
    report = examine(model)
    assert report.exit_status == 1, report
    finding = found(report, code)
    assert finding.severity == "error"
    text = words(finding)
    for word in expected:
        assert word in text, report
    assert report.summary in str(report)


@pytest.mark.parametrize("op_type", [info.onnx_type for info in _description.onnx_ops()])
def test_an_unsupported_dtype_lists_the_declared_dtypes(op_type: str) -> None:
    info = _description.by_onnx_type(op_type)
    names = [item.name for item in info.inputs if not item.optional]
    model = model_of(
        [node(op_type, " ".join(names), domain="myops")],
        {name: (TensorProto.UINT16, [1, 1, 3, 3]) for name in names},
        {"c": (TensorProto.UINT16, None)},
    )
    finding = found(examine(model), "dtype-unsupported")
    assert f"no kernel for uint16: its input {names[0]}" in finding.what
    kinds = info.types[info.inputs[0].type]
    assert ", ".join(kinds) in finding.why
    assert f"x.to(torch.{'float32' if 'float32' in kinds else kinds[0]})" in finding.fix


def test_a_body_does_not_replace_a_kernel_without_the_dtype() -> None:
    model = model_of(
        [node("MyAdd", domain="myops")], {"a": (UINT8, [2]), "b": (UINT8, [2])},
        {"c": (UINT8, None)}, functions=[add_body()],
    )  # fmt: skip
    finding = found(examine(model), "dtype-unsupported")
    assert "does not fall back" in finding.why
    assert "without the library" in finding.fix
    assert examine(model, myops_library=False).verdict == "loads"


def test_nodes_of_function_bodies_are_not_counted(tmp_path: Path) -> None:
    """As by inspect: a body says what one node of the model stands for."""
    import myops.onnx

    nodes = [node("MyAdd", outputs="t", domain="myops"), node("Relu", "t", name="end")]
    path = tmp_path / "model.onnx"
    onnx.save(model_of(nodes, TWO, functions=[add_body()]), path)
    facts = examine(path).model
    assert facts is not None
    assert facts["nodes"] == myops.onnx.inspect(path).node_count == 2


def test_a_node_without_library_and_body_is_an_error() -> None:
    finding = found(
        examine(model_of([node("MyAdd", domain="myops")], TWO), myops_library=False),
        "domain-unknown",
    )
    for word in ("myops.ort.session", "no function body", "myops.onnx.export", "`myops lower`"):
        assert word in words(finding)


def test_faults_that_onnxruntime_accepts_are_warnings() -> None:
    newer = model_of([node("MyAdd", domain="myops")], TWO, opsets=[("", 19), ("myops", 2)])
    nowhere = model_of([node("MyAdd", domain="myops")], TWO, opsets=[("", 19)])
    odd = model_of([node("Resize", "x - s", domain="myops", mod="cubic")], PICTURE)
    for model, code, text in (
        (newer, "domain-version", "version 2"),
        (nowhere, "domain-not-imported", "'myops'"),
        (odd, "attribute-unknown", "Did you mean 'mode'"),
    ):
        report = examine(model)
        assert (report.verdict, report.exit_status, report.errors) == ("loads", 0, []), report
        assert text in words(found(report, code))


def test_a_library_whose_ops_cannot_be_listed_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """What looks like a fault without that list is none, because ONNX Runtime loads the model."""
    monkeypatch.setattr(libraries, "_listed", lambda facts, outcome: None)
    model = model_of([node("MyAdd", domain="myops")], TWO)
    report = _doctor.doctor(model)
    assert (report.verdict, report.exit_status, report.errors) == ("loads", 0, []), report
    finding = found(report, "domain-unknown")
    assert "could not be found out: libmyops_ort" in finding.why
    assert "ONNX Runtime accepts it all the same" in finding.why


# ---- Files.


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "an empty file"),
        (b"PK\x03\x04" + bytes(50), "a zip archive"),
        (b"garbage" * 20, "no ONNX model"),
        (b"<html>", "a web page"),
        (b"version https://git-lfs.github.com/spec/v1", "Git LFS"),
        (model_of([node("Add")], TWO).SerializeToString()[:-7], "cut off"),
    ],
)
def test_a_file_that_is_no_model_is_named(tmp_path: Path, content: bytes, text: str) -> None:
    (tmp_path / "model.onnx").write_bytes(content)
    report = examine(tmp_path / "model.onnx")
    assert (report.verdict, report.exit_status) == ("does not load", 1)
    assert text in found(report, "model-broken").what


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    onnx.save(model_of([node("Add")], TWO), tmp_path / "model.onnx")
    with pytest.raises(FileNotFoundError, match=r"Did you mean 'model\.onnx'"):
        examine(tmp_path / "modle.onnx")
    with pytest.raises(IsADirectoryError):
        examine(tmp_path)


@pytest.fixture
def external(tmp_path: Path) -> Path:
    weights = onnx.numpy_helper.from_array(np.ones(1000, np.float32), "b")
    model = model_of([node("Add")], {"a": (FLOAT, [1000])}, initializer=[weights])
    onnx.save(model, tmp_path / "model.onnx", save_as_external_data=True, location="model.data")
    return tmp_path


def test_missing_and_truncated_external_data_are_named(external: Path) -> None:
    report = examine(external / "model.onnx", run=True)
    assert report.verdict == "runs", report
    assert report.model["weights"] == {"model.data": 4000}
    (external / "model.data").rename(external / "modle.data")
    finding = found(examine(external / "model.onnx"), "weights-missing")
    assert "'model.data'" in finding.what
    assert "Did you mean 'modle.data'" in finding.why
    assert finding.message
    (external / "model.data").write_bytes(bytes(3000))
    finding = found(examine(external / "model.onnx"), "weights-cut-off")
    assert "3000 bytes" in finding.why


@pytest.mark.parametrize("value", ["minus", "-4", "1e3"])
def test_external_data_without_a_place_are_named(external: Path, value: str) -> None:
    model = onnx.load(external / "model.onnx", load_external_data=False)
    (entry,) = [e for e in model.graph.initializer[0].external_data if e.key == "offset"]
    entry.value = value
    onnx.save(model, external / "model.onnx")
    finding = found(examine(external / "model.onnx"), "weights-damaged")
    text = f"offset: got {value!r}, expected a number of bytes"
    assert text in finding.why
    with pytest.raises(ValueError, match=re.escape(text)):
        myops.onnx.lower(external / "model.onnx")


def test_external_data_outside_the_folder_is_an_error(external: Path) -> None:
    model = onnx.load(external / "model.onnx", load_external_data=False)
    model.graph.initializer[0].external_data[0].value = "../model.data"
    onnx.save(model, external / "model.onnx")
    finding = found(examine(external / "model.onnx"), "weights-outside")
    assert "'../model.data'" in finding.what


def test_damaged_models_do_not_crash_the_doctor(rng: np.random.Generator) -> None:
    data = model_of(
        [node("MyAdd", domain="myops"), node("Relu", "c", "d", name="last")], TWO,
        {"d": (FLOAT, None)}, functions=[add_body()],
    ).SerializeToString()  # fmt: skip
    for changes in (1, 4, 20):
        broken = bytearray(data)
        for place in rng.integers(0, len(data), changes):
            broken[place] = rng.integers(256)
        report = examine(bytes(broken))
        assert report.exit_status in (0, 1)
        assert report.summary
        assert str(report)
    garbled = data.replace(b"MyAdd", b"My\xff\xfed", 1)  # the node, not its function
    assert examine(garbled).exit_status == 1


# ---- Messages.


def test_an_unknown_message_is_shown_unchanged() -> None:
    model = model_of([node("Rulu", "a")], TWO, {"c": (FLOAT, [2])})
    finding = explain(
        "  Something that nobody has seen yet: 0x17\n", MessageContext(model, Provided("1"))
    )
    assert finding.code == "runtime-error"
    assert finding.message == "Something that nobody has seen yet: 0x17"
    assert "onnx.checker says" in finding.why
    assert "Rulu" in finding.why


@pytest.mark.parametrize(
    ("message", "code", "text"),
    [
        ("FAIL : Fatal error: acme:Foo(-1) is not a registered function/op", "domain-unknown",
         "'acme'"),
        ("Opset 31 is under development and support for this is limited.", "opset-too-new", "31"),
        ("Domain already set in registry", "domain-clash", "one library only"),
        ("Unsupported version '99' in custom op 'Foo", "library-api-version", "1.99"),
        ("Got invalid dimensions for input: x for the following indices\n index: 2 Got: 5 "
         "Expected: 4\n Please fix either the inputs/outputs or the model.", "input-wrong",
         "axis 2: got 5, expected 4"),
        ("Required inputs (['b']) are missing from input feed (['a']).", "input-wrong", "['b']"),
        ("std::bad_alloc", "memory", "did not suffice"),
    ],
)  # fmt: skip
def test_messages_are_explained_without_a_model(message: str, code: str, text: str) -> None:
    finding = explain(message, MessageContext(None, Provided("1.31.1")))
    assert finding.code == code
    assert text in words(finding)
    assert finding.message == message
