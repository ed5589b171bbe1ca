"""`myops.onnx.compare_files`: two backends, on one file and on two."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference.op_run import OpRun
from surgery_models import FLOAT, exported, info, model_of, three_domains
from two_files_models import (
    constant,
    dense_layers,
    loop,
    values_by_name,
)

from myops.onnx import compare_files
from myops.onnx.two_files import backends, comparing


@pytest.mark.parametrize(("backend", "against"), [
    ("ort", "reference"), ("reference", "ort-no-optimization"), ("ort-no-optimization", "ort"),
])  # fmt: skip
def test_one_file_agrees_in_two_backends(backend, against):
    for model in (exported("upscale"), loop(), dense_layers()):
        report = compare_files(model, backend=backend, against=against)
        assert report.passed, report.notes
        assert {value.paired for value in report.values} == {"same"}
        assert report.sides[0] != report.sides[1]
        has_loop = any(node.op_type == "Loop" for node in model.graph.node)
        assert any(value.where for value in report.values) == has_loop


def test_a_node_on_which_backends_differ_is_named(monkeypatch):
    class Wrong(OpRun):
        op_domain = "myops"

        def _run(self, a, b):
            return (a + b,)

    Wrong.__name__ = "MyAdd"
    Wrong.op_schema = onnx.defs.get_schema("Add")
    monkeypatch.setattr(backends, "reference_ops", lambda: [Wrong])
    nodes = [helper.make_node("Abs", ["x"], ["a"]),
             helper.make_node("MyAdd", ["a", "x"], ["b"], "ours", domain="myops"),
             helper.make_node("Tanh", ["b"], ["y"])]  # fmt: skip
    ends = [info("x", FLOAT, [3]), info("y", FLOAT, [3])]
    model = model_of(nodes, ends[:1], ends[1:], domains=["myops"])
    report = compare_files(model, against="reference")
    assert report.first_mismatch.cause == "backends"
    assert report.first_mismatch.nodes == ["myops::MyAdd 'ours'"]
    assert report.begins.value == "b"


def test_ops_of_other_libraries_and_of_functions():
    pytest.importorskip("onnxruntime_extensions")
    changed = three_domains()
    changed.functions[0].node[1].attribute.append(helper.make_attribute("mode", "linear"))
    assert compare_files(three_domains(), three_domains()).passed
    report = compare_files(three_domains(), changed)
    assert not report.passed
    assert any("attribute mode" in text for text in report.first_mismatch.evidence)
    with pytest.raises(RuntimeError, match=r"onnx\.reference does not load the model"):
        compare_files(three_domains(), backend="reference", against="ort")


def test_a_node_at_which_the_second_file_fails_is_named():
    def model(lengths):
        nodes = [helper.make_node("Abs", ["x"], ["a"], "abs"),
                 helper.make_node("Reshape", ["a", "to"], ["b"], "fold"),
                 helper.make_node("Neg", ["b"], ["y"], "neg")]  # fmt: skip
        weights = [constant("to", lengths, np.int64)]
        return model_of(nodes, [info("x", FLOAT, ["n"])], [info("y", FLOAT, None)], weights)

    x = np.ones(12, np.float32)
    report = compare_files(model([3, 4]), model([5, 4]), inputs={"x": x})
    assert not report.passed
    assert report.first_mismatch.cause == "stops"
    assert "'fold'" in report.first_mismatch.value
    assert any(note.startswith("The second stops at Reshape 'fold'") for note in report.notes)
    assert values_by_name(report)["a"].status == "ok"


def test_a_fault_of_the_optimizer_is_named(monkeypatch):
    """The original file gives another result than the file with all values as outputs."""
    before = backends.Backend.opened

    def opened(self, model, names=None):
        run = before(self, model, names)
        if names is not None or self.name != "ort":
            return run
        return lambda feeds: {name: array + 1 for name, array in run(feeds).items()}

    monkeypatch.setattr(backends.Backend, "opened", opened)
    report = compare_files(dense_layers(2), backend="ort-no-optimization", against="ort")
    assert not report.passed
    assert report.first_mismatch.cause == "optimiser"
    assert [value.status for value in report.outputs] == ["fail"]


@pytest.mark.parametrize("backend", list(backends.BACKENDS))
def test_models_without_nodes_or_with_constant_outputs(backend):
    ends = [info("x", FLOAT, [2]), info("x", FLOAT, [2])]
    empty = model_of([], ends[:1], ends[1:])
    assert compare_files(empty, empty, backend=backend).passed
    nodes = [helper.make_node("Constant", [], ["y"], value=constant("", [1.0, 2.0]))]
    fixed = model_of(nodes, [], [info("y", FLOAT, [2])])
    other = model_of([], [], [info("y", FLOAT, [2])], [constant("y", [1.0, 3.0])])
    assert compare_files(fixed, fixed, backend=backend).passed
    for pair in ((fixed, other), (other, fixed)):
        assert not compare_files(*pair, backend=backend).passed


@pytest.mark.parametrize("words", [{"against": "reference"}, {"backend": "reference"}])
def test_a_node_that_onnx_reference_cannot_run_is_no_difference(words):
    """Its GatherElements takes no more than 64 elements along an axis."""

    def model(end="Neg"):
        nodes = [helper.make_node("Abs", ["x"], ["a"], "abs"),
                 helper.make_node("GatherElements", ["a", "i"], ["g"], "pick", axis=0),
                 helper.make_node(end, ["g"], ["y"], "end")]  # fmt: skip
        weights = [constant("i", np.zeros((3, 2, 2)), np.int64)]
        return model_of(nodes, [info("x", FLOAT, [100, 2, 2])], [info("y", FLOAT, None)], weights)

    with pytest.raises(RuntimeError) as caught:
        compare_files(model(), model(), **words)
    text = str(caught.value)
    if "against" in words:
        assert "could not be compared: GatherElements 'pick' of the second: onnx.reference" in text
        assert text.endswith('Choose another backend: against="ort" or "ort-no-optimization"')
    assert "onnx.reference does not run the model: ValueError: Need at least" in text


@pytest.mark.parametrize("option", ["backend", "against"])
def test_an_unknown_backend_is_named_by_its_argument(option):
    model = model_of([helper.make_node("Sin", ["x"], ["y"])], [info("x", FLOAT, [5])],
                     [info("y", FLOAT, [5])])  # fmt: skip
    with pytest.raises(ValueError, match=f"compare: {option}: got 'nothing', expected one of"):
        compare_files(model, **{option: "nothing"})


def test_torch_is_not_imported(tmp_path):
    onnx.save(loop(), tmp_path / "a.onnx")
    code = (
        "import sys; sys.modules['torch'] = None; import myops.onnx as o;"
        "r = o.compare_files('a.onnx', 'a.onnx'); assert r.passed; r.write_html('p.html');"
        "assert o.compare_files('a.onnx', against='reference').passed;"
        "assert o.diff('a.onnx', 'a.onnx').equal; import myops.ort;"
        "myops.ort.bench('a.onnx', repeat=1)"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True,
                            text=True, check=False)  # fmt: skip
    assert result.returncode == 0, result.stderr


def test_one_file_is_read_once(monkeypatch, tmp_path):
    """A model and the graph made of it are as large as its weights."""
    onnx.save(dense_layers(2), tmp_path / "model.onnx")
    loaded = []
    load = comparing.files.load
    monkeypatch.setattr(comparing.files, "load", lambda model: loaded.append(model) or load(model))
    assert compare_files(tmp_path / "model.onnx", against="reference").passed
    assert loaded == [tmp_path / "model.onnx"]
