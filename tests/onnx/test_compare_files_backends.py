"""`myops.onnx.compare_files`: backends, unusual models and inputs, errors, the report."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference.op_run import OpRun
from rich.console import Console
from surgery_models import FLOAT, exported, info, model_of, three_domains
from two_files_models import (
    BOOL,
    INT64,
    constant,
    copied,
    dense_layers,
    loop,
    node_named,
    renamed,
    set_weight,
    unary,
    values_by_name,
    weight_of,
)

import myops.onnx
import myops.ort
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


def test_other_choices_among_equal_values_are_no_fault():
    def model(last):
        nodes = [helper.make_node("ArgMax", ["x"], ["i"], "arg", axis=1, select_last_index=last)]
        ends = [info("x", FLOAT, [2, 4]), info("i", INT64, None)]
        return model_of(nodes, ends[:1], ends[1:])

    x = np.float32([[0, 0, 0, 0], [1, 3, 2, 3]])
    report = compare_files(model(0), model(1), inputs={"x": x})
    assert report.passed
    assert values_by_name(report)["i"].status == "order"
    assert "2 of 2 indices of ArgMax point at equal values" in values_by_name(report)["i"].detail


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


def test_sequences_are_noted_and_not_compared():
    """Values that are no tensors are skipped; outputs that are no tensors are noted."""
    nodes = [helper.make_node("SequenceConstruct", ["x", "x"], ["s"]),
             helper.make_node("SequenceAt", ["s", "i"], ["a"]),
             helper.make_node("Neg", ["a"], ["y"])]  # fmt: skip
    outputs = [info("y", FLOAT, [3]), helper.make_tensor_sequence_value_info("s", FLOAT, None)]
    weights = [constant("i", 0, np.int64)]
    model = model_of(nodes, [info("x", FLOAT, [3])], outputs, weights)
    for backend in backends.BACKENDS:
        report = compare_files(model, model, backend=backend)
        assert report.passed
        assert any("output 's' was not compared" in note for note in report.notes)
        assert set(values_by_name(report)) == {"a", "y"}
    del model.graph.output[0]
    with pytest.raises(ValueError, match="expected outputs that are tensors"):
        compare_files(model, model)
    # A sequence that a branch reads.
    then = helper.make_graph([helper.make_node("SequenceAt", ["s", "i"], ["t"])], "then", [],
                             [info("t", FLOAT, [3])])  # fmt: skip
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["e"])], "else", [],
                              [info("e", FLOAT, [3])])  # fmt: skip
    nodes = [nodes[0], helper.make_node("If", ["flag"], ["y"], "choose", then_branch=then,
                                        else_branch=other)]  # fmt: skip
    inputs = [info("x", FLOAT, [3]), info("flag", BOOL, [])]
    report = compare_files(*[model_of(nodes, inputs, outputs[:1], weights)] * 2)
    assert report.passed
    assert any("Inside 'choose' (If) nothing was compared" in note for note in report.notes)


@pytest.mark.parametrize("kind", [onnx.TensorProto.BFLOAT16, onnx.TensorProto.FLOAT16])
def test_bfloat16_and_float16_values_are_compared(kind):
    def model(op):
        nodes = [helper.make_node("Cast", ["x"], ["wide"], to=FLOAT),
                 helper.make_node(op, ["wide"], ["a"], "op"),
                 helper.make_node("Cast", ["a"], ["y"], to=kind)]  # fmt: skip
        return model_of(nodes, [info("x", kind, [5])], [info("y", kind, [5])])

    given = {"x": np.linspace(-1, 1, 5, dtype=np.float32)}
    for backend in backends.BACKENDS:
        assert compare_files(model("Sin"), model("Sin"), backend=backend, inputs=given).passed
        report = compare_files(model("Sin"), model("Tan"), backend=backend, inputs=given)
        assert report.first_mismatch.value == "a"


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


def _refused_everywhere(model, inputs, text):
    """Checks that each function that takes arrays for the inputs refuses these."""
    for call in (
        lambda: compare_files(model, model, inputs=inputs),
        lambda: myops.ort.bench(model, inputs=inputs),
        lambda: myops.ort.explain(model, inputs=inputs),
        lambda: myops.onnx.to_half(model, inputs=inputs),
    ):
        with pytest.raises(ValueError, match=text):
            call()


@pytest.mark.parametrize("shape", [(2, 4, 8), (2, 3), (2, 3, 4, 5)])
def test_arrays_of_another_shape_are_refused(shape):
    model = model_of([helper.make_node("Sin", ["x"], ["y"])], [info("x", FLOAT, ["n", 3, None])],
                     [info("y", FLOAT, ["n", 3, None])])  # fmt: skip
    stated = [tensor.dim_param or tensor.dim_value
              for tensor in model.graph.input[0].type.tensor_type.shape.dim]  # fmt: skip
    assert stated[:2] == ["n", 3]
    inputs = {"x": np.ones(shape, np.float32)}
    text = rf"inputs: x: got an array of shape \[{', '.join(map(str, shape))}\], expected \[n, 3, "
    _refused_everywhere(model, inputs, text)


def test_a_shape_that_onnxruntime_refuses_is_explained():
    model = model_of([helper.make_node("Sin", ["x"], ["y"])], [info("x", FLOAT, ["n", 3])],
                     [info("y", FLOAT, ["n", 3])])  # fmt: skip
    for call in (
        lambda: compare_files(model, model, shapes={"x": [2, 4]}),
        lambda: myops.ort.explain(model, shapes={"x": [2, 4]}),
    ):
        with pytest.raises(RuntimeError, match="does not run") as caught:
            call()
        assert "index: 1 Got: 4 Expected: 3" in str(caught.value)
        assert "INVALID_ARGUMENT" not in str(caught.value)
        assert str(caught.value).endswith('inputs={"NAME": "FILE.npy"}')


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32"])
def test_arrays_of_another_type_are_refused(dtype):
    """As ONNX Runtime refuses them: a conversion would hide what the caller will meet there."""
    model = model_of([helper.make_node("Sin", ["x"], ["y"])], [info("x", FLOAT, [5])],
                     [info("y", FLOAT, [5])])  # fmt: skip
    inputs = {"x": np.ones(5, dtype)}
    text = f"inputs: x: got an array of {dtype}, expected float32; convert it"
    _refused_everywhere(model, inputs, text)


@pytest.mark.parametrize("option", ["backend", "against"])
def test_an_unknown_backend_is_named_by_its_argument(option):
    model = model_of([helper.make_node("Sin", ["x"], ["y"])], [info("x", FLOAT, [5])],
                     [info("y", FLOAT, [5])])  # fmt: skip
    with pytest.raises(ValueError, match=f"compare: {option}: got 'nothing', expected one of"):
        compare_files(model, **{option: "nothing"})


def test_integers_booleans_and_strings_are_compared():
    def model(end):
        nodes = [helper.make_node("Less", ["i", "four"], ["small"], "less"),
                 helper.make_node("Add", ["i", "four"], ["sum"], "add"),
                 helper.make_node("StringConcat", ["t", "end"], ["text"], "join")]  # fmt: skip
        inputs = [info("i", INT64, [3]), info("t", onnx.TensorProto.STRING, [2])]
        outputs = [info("small", BOOL, [3]), info("sum", INT64, [3]),
                   info("text", onnx.TensorProto.STRING, [2])]  # fmt: skip
        weights = [constant("four", 4, np.int64), constant("end", [end], object)]
        return model_of(nodes, inputs, outputs, weights, opset=20, ir=9)

    given = {"i": np.array([1, 2**60, -(2**62)]), "t": np.array(["Ab", "größe"])}
    assert compare_files(model("a"), model("a"), inputs=given).passed
    report = compare_files(model("a"), model("ä"), inputs=given)
    assert {v.name: v.status for v in report.values} == {"small": "ok", "sum": "ok", "text": "fail"}
    assert values_by_name(report)["text"].detail == "2 of 2 elements"


def test_inputs_with_other_names_are_paired_in_order():
    def model(*names):
        nodes = [helper.make_node("Sum", list(names), ["y"], "sum")]
        inputs = [info(name, FLOAT, [3]) for name in names]
        return model_of(nodes, inputs, [info("y", FLOAT, [3])])

    report = compare_files(model("a", "b"), model("p", "q"))
    assert report.passed
    assert any("paired in order: 'a' and 'p'" in note for note in report.notes)
    with pytest.raises(ValueError, match="nothing is known of 'c'"):
        compare_files(model("a", "b"), model("a", "b", "c"))
    report = compare_files(model("a", "b"), model("a"))
    assert not report.passed
    assert any("Only the first has the input 'b'" in note for note in report.notes)


@pytest.mark.parametrize(("other", "said"), [
    (info("x", FLOAT, [1, 3, 8, 8]), ""), (info("x", FLOAT, [1, "c", None, 8]), ""),
    (info("x", FLOAT, None), ""), (info("x", TensorProto.FLOAT16, [1, 3, 8, 8]), ""),
    (info("x", FLOAT, [1, 10]), "'x' float32[1, 10]"),
    (info("x", FLOAT, [1, 3, 9, "w"]), "'x' float32[1, 3, 9, w]"),
    (info("x", TensorProto.INT64, [1, 3, 8, 8]), "'x' int64[1, 3, 8, 8]"),
    (info("tokens", TensorProto.INT64, ["b", None]), "'tokens' int64[b, ?]"),
    (helper.make_tensor_sequence_value_info("x", FLOAT, None), "'x' sequence"),
])  # fmt: skip
def test_files_with_other_inputs_are_refused(other, said):
    """They were reported as a difference at the node that does not run on the first's inputs."""
    first = model_of(
        [helper.make_node("Neg", ["x"], ["y"])], [info("x", FLOAT, [1, 3, 8, 8])],
        [info("y", FLOAT, None)],
    )  # fmt: skip
    number = other.type.tensor_type.elem_type
    second = model_of(
        [helper.make_node("Neg", [other.name], ["y"])], [other], [info("y", number or FLOAT, None)]
    )
    if not said:
        assert compare_files(first, second).passed
        return
    with pytest.raises(ValueError, match="inputs differ") as caught:
        compare_files(first, second)
    assert f"'x' float32[1, 3, 8, 8] in the first and {said}" in str(caught.value)


def test_wrong_arguments_are_refused(tmp_path):
    with pytest.raises(ValueError, match="expected a second file"):
        compare_files(dense_layers())
    with pytest.raises(ValueError, match="Did you mean 'reference'"):
        compare_files(dense_layers(), against="refrence")
    with pytest.raises(ValueError, match="no input 'z'; its input is x"):
        compare_files(dense_layers(), dense_layers(), inputs={"z": np.ones(3)})
    with pytest.raises(ValueError, match="no open length 'm'; its open lengths are "):
        compare_files(dense_layers(), dense_layers(), dims={"m": 3})
    with pytest.raises(FileNotFoundError, match=r"no such file: .*gone\.onnx"):
        compare_files(dense_layers(), tmp_path / "gone.onnx")
    with pytest.raises(RuntimeError, match="does not run"):
        compare_files(dense_layers(), dense_layers(), shapes={"x": [3, 7]})
    broken = copied(dense_layers())
    broken.graph.node[0].op_type = "NoSuchOp"
    with pytest.raises(RuntimeError, match=r"the second file: .*NoSuchOp"):
        compare_files(dense_layers(), broken)
    unknown = copied(unary("Abs"))
    unknown.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(ValueError, match=r"states no shape\. Say what the inputs are like"):
        compare_files(unknown, unknown)


def test_dims_shapes_and_inputs_are_used():
    report = compare_files(dense_layers(), dense_layers(), dims={"n": 3})
    assert values_by_name(report)["y"].shape == (3, 6)
    assert report.inputs["x"]["invented"] == ""
    assert compare_files(dense_layers(), dense_layers(), shapes={"x": [5, 6]}).inputs["x"][
        "shape"
    ] == [5, 6]


def test_tolerances_of_the_caller_are_used():
    wrong = dense_layers(2)
    set_weight(wrong, "b0", weight_of(wrong, "b0") * np.float32(1.001))
    assert not compare_files(dense_layers(2), wrong).passed
    assert compare_files(dense_layers(2), wrong, rtol=1e-1).passed
    assert compare_files(dense_layers(2), wrong, rtol=0, atol=0.1).passed


def test_the_report_prints_and_becomes_json_and_html(tmp_path, capsys):
    wrong = renamed(loop(), lambda name: f"<b>{name}</b>" if name else name)
    node_named(wrong.graph, "<b>scale</b>").op_type = "Add"
    report = compare_files(loop(), wrong)
    report.print(Console(width=200))
    shown = capsys.readouterr().out
    assert "First difference" in shown
    assert "FAIL" in shown
    assert "start | <b>start</b> " in shown
    data = json.loads(report.to_json())
    assert data["passed"] is False
    assert {"name", "other", "paired", "where", "iterations", "other_shape"} <= set(
        data["values"][0]
    )
    report.write_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "&lt;b&gt;start&lt;/b&gt;" in page
    assert "<b>start" not in page
    assert "PyTorch" not in page


def test_long_lists_of_absorbed_values_are_cut(capsys):
    """A factor by which a later node divides again."""

    def model(factor):
        kinds = ["Abs", "Relu"] * 6
        nodes = [helper.make_node("Mul", ["x", "f"], ["v0"], "up")]
        nodes += [helper.make_node(kind, [f"v{i}"], [f"v{i + 1}"]) for i, kind in enumerate(kinds)]
        nodes.append(helper.make_node("Div", ["v12", "f"], ["y"], "down"))
        ends = [info("x", FLOAT, [8]), info("y", FLOAT, [8])]
        return model_of(nodes, ends[:1], ends[1:], [constant("f", factor)])

    report = compare_files(model(2.0), model(4.0))
    assert report.passed
    assert sum(value.status == "absorbed" for value in report.values) == 13
    report.print(Console(width=150))
    assert "... 7 more such values (--all has them)" in capsys.readouterr().out
    report.print(Console(width=150), all_values=True)
    assert "more such values" not in capsys.readouterr().out


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
