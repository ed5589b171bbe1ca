"""`myops.onnx.compare_files`: what agrees, faults that must be found, bodies, backends, errors."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference.op_run import OpRun
from rich.console import Console
from surgery_models import FLOAT, exported, info, model_of, zoo
from two_files_models import (
    BOOL,
    INT64,
    chain,
    constant,
    copied,
    loop,
    node_named,
    renamed,
    set_weight,
    unary,
    weight_of,
)

import myops.onnx
from myops.onnx import compare_files
from myops.onnx.two_files import backends, tracing


def rows(report):
    return {value.name: value for value in report.values}


def test_a_file_and_itself():
    report = compare_files(chain(), chain())
    assert report.passed
    assert report.blame is None
    assert report.begins is None
    assert len(report.values) == 12 * 3 + 1
    assert {value.paired for value in report.values} == {"same"}
    assert report.inputs["x"]["shape"] == [16, 6]
    assert "'n'" in report.inputs["x"]["invented"]


def test_other_names_throughout():
    report = compare_files(chain(), renamed(chain(), lambda name: f"{name} größe"))
    assert report.passed
    assert {value.paired for value in report.values} == {"same"}
    assert rows(report)["add3"].other == "add3 größe"
    assert rows(report)["add3"].title == "add3 | add3 größe"


def test_identities_may_come_and_go():
    other = chain()
    other.graph.node.insert(6, helper.make_node("Identity", ["tanh1"], ["same"], "same"))
    other.graph.node[7].input[0] = "same"
    for pair in ((chain(), other), (other, chain())):
        report = compare_files(*pair)
        assert report.passed
        assert {value.paired for value in report.values} == {"same"}
        assert not report.unmatched


def test_one_wrong_number_in_twelve_layers_is_named():
    wrong = renamed(chain(), lambda name: f"v_{name}")
    bias = weight_of(wrong, "v_b7").copy()
    bias[2] += 0.5
    set_weight(wrong, "v_b7", bias)
    report = compare_files(chain(), wrong)
    assert not report.passed
    for blame in (report.blame, report.begins):
        assert (blame.value, blame.other, blame.cause) == ("add7", "v_add7", "nodes")
        assert blame.nodes == ["Add 'node_add7'"]
        assert blame.other_nodes == ["Add 'v_node_add7'"]
        assert not blame.alone.agrees
        assert any("constant 'b7': values: 1 of 6 differ, by up to 0.5" in text
                   for text in blame.evidence)  # fmt: skip
    status = {name: value.status for name, value in rows(report).items()}
    assert status["mul7"] == "ok"
    assert status["add7"] == status["tanh11"] == "fail"
    assert rows(report)["tanh11"].paired == "place"


def test_the_shape_may_differ():
    wrong = chain()
    set_weight(wrong, "b3", np.zeros((2, 1, 6), np.float32))
    report = compare_files(chain(), wrong, inputs={"x": np.ones((1, 6), np.float32)})
    assert not report.passed
    assert rows(report)["add3"].detail == "shape [2, 1, 6], in the first [1, 6]"
    assert report.blame.value == report.begins.value == "add3"


def test_the_bisection_skips_what_does_not_matter():
    """A fault whose value is multiplied by zero, and one that reaches the output."""

    def model(first, second):
        nodes = [
            helper.make_node("Mul", ["x", "p"], ["a"], "first"),
            helper.make_node("Abs", ["a"], ["b"], "abs"),
            helper.make_node("Mul", ["b", "zero"], ["c"], "nothing"),
            helper.make_node("Mul", ["x", "q"], ["d"], "second"),
            helper.make_node("Add", ["c", "d"], ["e"], "add"),
            helper.make_node("Tanh", ["e"], ["y"], "tanh"),
        ]
        ends = [info("x", FLOAT, [4]), info("y", FLOAT, [4])]
        weights = [constant("p", first), constant("q", second), constant("zero", 0.0)]
        return model_of(nodes, ends[:1], ends[1:], weights)

    report = compare_files(model(2, 3), model(5, 4))
    assert (report.blame.value, report.begins.value) == ("d", "d")
    assert {"a", "b"} == {v.name for v in report.values if v.status == "absorbed"}
    assert rows(report)["e"].status == "fail"
    report = compare_files(model(2, 3), model(5, 3))
    assert report.passed
    assert any(note.startswith("2 values inside differ") and note.endswith("is a.")
               for note in report.notes)  # fmt: skip
    assert report.begins is None
    assert {"a", "b"} == {v.name for v in report.values if v.status == "absorbed"}


def test_what_is_inherited_is_told_from_what_arises():
    """Each layer is within the tolerance of its own; together they are not."""
    depth = 60

    def model(factor):
        nodes = [helper.make_node("Mul", [f"v{i}", "f"], [f"v{i + 1}"]) for i in range(depth)]
        ends = [info("v0", FLOAT, [8]), info(f"v{depth}", FLOAT, [8])]
        return model_of(nodes, ends[:1], ends[1:], [constant("f", factor)])

    report = compare_files(model(1.0), model(1.00001))
    assert not report.passed
    assert report.blame.cause == "rounding"
    assert report.blame.alone.agrees
    assert "inherited from the values before" in report.blame.evidence[-1]
    assert rows(report)["v1"].status == "ok"
    # One layer that is wrong by more, behind those: it is the one to blame.
    wrong = model(1.00001)
    wrong.graph.initializer.append(constant("g", 1.1))
    wrong.graph.node[40].input[1] = "g"
    report = compare_files(model(1.0), wrong)
    assert report.blame.cause == "nodes"
    assert report.blame.value == "v41"
    origins = {v.name: v.origin for v in report.values if v.status == "fail"}
    assert {name for name, origin in origins.items() if origin == "arises"} == {"v41"}
    assert origins["v39"] == origins["v42"] == origins["v60"] == "inherited"


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_lowered_and_simplified_files(exporter):
    model = exported("upscale", exporter)
    for other in (myops.onnx.lower(model), myops.onnx.simplify(model, check=False).model):
        report = compare_files(model, other)
        assert report.passed, report.notes
        assert len(report.values) >= 4
        assert len({value.name for value in report.values}) == len(report.values)


def test_files_of_two_exporters():
    report = compare_files(exported("branches"), exported("branches", "torchscript"))
    assert report.passed
    assert len(report.values) == 11
    assert {value.paired for value in report.values} == {"same"}


def folded(bias):
    """A convolution and a normalisation, and the convolution into which that was folded."""
    rng = np.random.default_rng(0)
    kernel, scale = rng.standard_normal((4, 3, 3, 3)), rng.uniform(0.5, 2, 4)
    ends = [info("x", FLOAT, [1, 3, 6, 6]), info("y", FLOAT, [1, 4, 4, 4])]
    zeros, ones = np.zeros(4), np.ones(4)
    weights = [constant("k", kernel), constant("s", scale), constant("o", bias),
               constant("m", zeros), constant("v", ones)]  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["conv"], "conv"),
        helper.make_node("BatchNormalization", ["conv", "s", "o", "m", "v"], ["norm"], "norm",
                         epsilon=0.0),
        helper.make_node("Relu", ["norm"], ["y"], "relu"),
    ]  # fmt: skip
    apart = model_of(nodes, ends[:1], ends[1:], weights)
    weights = [constant("k", kernel * scale[:, None, None, None]), constant("o", bias)]
    nodes = [helper.make_node("Conv", ["x", "k", "o"], ["conv"], "conv"),
             helper.make_node("Relu", ["conv"], ["y"], "relu")]  # fmt: skip
    return apart, model_of(nodes, ends[:1], ends[1:], weights)


def test_a_folded_normalisation_is_paired_by_its_numbers():
    report = compare_files(*folded([0.1, -0.2, 0.3, 0.4]))
    assert report.passed
    assert (rows(report)["norm"].other, rows(report)["norm"].paired) == ("conv", "numbers")
    assert [item.path for item in report.unmatched] == ["conv"]


def test_values_inside_if_and_loop():
    report = compare_files(loop(), loop())
    assert report.passed, report.notes
    assert not report.notes
    inside = {(value.name, len(value.where)): value for value in report.values if value.where}
    assert inside["scaled", 1].iterations == 4
    # With |x| around 1, the state passes 9 in the third or fourth iteration only.
    assert 1 <= inside["out_then", 2].iterations < 4
    assert inside["out_then", 2].iterations + inside["out_else", 2].iterations == 4
    assert "'repeat' (Loop) body > 'turn' (If) then_branch" in inside["out_then", 2].title


def test_values_of_bodies_are_those_of_the_run():
    """Against plain NumPy, in each iteration."""
    model, x = loop(growing=True), np.float32([1.0, -2.0, 0.5])
    graph = backends.flattened(model)
    found = tracing.trace(backends.Backend("ort-no-optimization"), tracing.Graph(graph), {"x": x})
    assert not found.notes
    state, path = np.abs(x), ((1, "body"),)
    for number in range(4):
        scaled = state * 2
        np.testing.assert_array_equal(found.inner[path, (number,), "scaled"], scaled)
        state = -scaled if scaled.max() > 9 else scaled
        state = np.append(state, np.float32(1))
        np.testing.assert_array_equal(found.inner[path, (number,), "longer"], state)
    assert state.shape == (7,)
    np.testing.assert_array_equal(found.values["y"], state)


@pytest.mark.parametrize("growing", [False, True])
def test_a_fault_inside_an_if_inside_a_loop(growing):
    wrong = loop(growing=growing)
    node_named(wrong.graph, "then_Neg").op_type = "Exp"
    x = np.float32([1.0, 2.0, 0.5])  # scaled: 2 4 1, 4 8 2, 8 16 4: the third passes the limit
    report = compare_files(loop(growing=growing), wrong, inputs={"x": x})
    assert not report.passed
    assert report.blame.value == "state_out"
    inside = next(v for v in report.values if v.name == "out_then")
    assert inside.status == "fail"
    assert "first in iteration 3" in inside.detail
    start = "Inside, the first value that differs is out_then in 'repeat' (Loop) body > 'turn' (If)"
    assert any(text.startswith(start) for text in report.blame.evidence)
    # Where the branch is not taken, nothing differs.
    report = compare_files(loop(), wrong, inputs={"x": x / 100}) if not growing else None
    assert report is None or report.passed


def test_a_difference_inside_that_does_not_come_out():
    model = loop()
    wrong = copied(model)
    body = node_named(wrong.graph, "repeat").attribute[0].g
    body.node.insert(0, helper.make_node("Mul", ["factor", "limit"], ["spare"], "spare"))
    same = copied(wrong)
    node_named(wrong.graph, "spare").op_type = "Sub"
    report = compare_files(same, wrong)
    assert report.passed
    spare = next(value for value in report.values if value.name == "spare")
    assert spare.status == "absorbed"
    assert spare.detail.endswith("what its node gives agrees")


def test_loops_without_end_and_many_iterations():
    model = loop("Div")
    set_weight(model, "trips", np.int64(250))
    report = compare_files(model, model)
    assert report.passed
    assert any("first 100 iterations" in note for note in report.notes)
    assert next(v for v in report.values if v.name == "scaled").iterations == 100
    set_weight(model, "trips", np.int64(0))
    report = compare_files(model, model)
    assert report.passed
    assert not [v for v in report.values if v.where]


def test_scan():
    def model(kind):
        body = helper.make_graph(
            [helper.make_node("Add", ["total", "total"], ["double"], "double"),
             helper.make_node(kind, ["double", "part"], ["next"], "step"),
             helper.make_node("Identity", ["next"], ["seen"], "copy")],
            "body", [info("total", FLOAT, [2]), info("part", FLOAT, [2])],
            [info("next", FLOAT, [2]), info("seen", FLOAT, [2])],
        )  # fmt: skip
        scan = helper.make_node(
            "Scan",
            ["zero", "x"],
            ["last", "all"],
            "scan",
            body=body,
            num_scan_inputs=1,
            scan_input_axes=[1],
            scan_input_directions=[1],
        )
        ends = [info("x", FLOAT, [2, 5]), info("last", FLOAT, [2]), info("all", FLOAT, [5, 2])]
        return model_of([scan], ends[:1], ends[1:], [constant("zero", [0.0, 0.0])])

    report = compare_files(model("Add"), model("Add"))
    assert report.passed
    assert not report.notes  # run alone, the body gave what it gave in the graph
    assert {v.name: v.iterations for v in report.values if v.where} == {
        "double": 5,
        "next": 5,
        "seen": 5,
    }
    report = compare_files(model("Add"), model("Sub"))
    step = next(v for v in report.values if v.name == "next")
    assert step.status == "fail"
    assert report.blame.value in ("last", "all")


def test_a_body_that_gives_something_else_alone_is_noticed(monkeypatch):
    """As one with random numbers does."""
    before = backends.Backend.opened

    def opened(self, model, names=None):
        run = before(self, model, names)
        if model.graph.name != "body":
            return run
        return lambda feeds: {k: v + (v.dtype.kind == "f") for k, v in run(feeds).items()}

    monkeypatch.setattr(backends.Backend, "opened", opened)
    report = compare_files(loop(), loop())
    assert any("'repeat' (Loop), run alone, gives something else" in n for n in report.notes)


def test_a_loop_without_a_condition():
    model = loop()
    node_named(model.graph, "repeat").input[1] = ""
    report = compare_files(model, model)
    assert report.passed
    assert not report.notes
    assert next(v for v in report.values if v.name == "scaled").iterations == 4


@pytest.mark.parametrize(("backend", "against"), [
    ("ort", "reference"), ("reference", "ort-no-optimization"), ("ort-no-optimization", "ort"),
])  # fmt: skip
def test_one_file_in_two_backends(backend, against):
    for model in (exported("upscale"), loop(), chain()):
        report = compare_files(model, backend=backend, against=against)
        assert report.passed, report.notes
        assert {value.paired for value in report.values} == {"same"}
        assert report.sides[0] != report.sides[1]
        assert {value.where != () for value in report.values} >= {False}


def test_two_backends_that_differ(monkeypatch):
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
    assert report.blame.cause == "backends"
    assert report.blame.nodes == ["myops::MyAdd 'ours'"]
    assert report.begins.value == "b"


def test_libraries_of_others_and_functions():
    pytest.importorskip("onnxruntime_extensions")
    changed = zoo()
    changed.functions[0].node[1].attribute.append(helper.make_attribute("mode", "linear"))
    assert compare_files(zoo(), zoo()).passed
    report = compare_files(zoo(), changed)
    assert not report.passed
    assert any("attribute mode" in text for text in report.blame.evidence)
    with pytest.raises(RuntimeError, match=r"onnx\.reference does not load the model"):
        compare_files(zoo(), backend="reference", against="ort")


def test_ties_are_no_faults():
    def model(last):
        nodes = [helper.make_node("ArgMax", ["x"], ["i"], "arg", axis=1, select_last_index=last)]
        ends = [info("x", FLOAT, [2, 4]), info("i", INT64, None)]
        return model_of(nodes, ends[:1], ends[1:])

    x = np.float32([[0, 0, 0, 0], [1, 3, 2, 3]])
    report = compare_files(model(0), model(1), inputs={"x": x})
    assert report.passed
    assert rows(report)["i"].status == "order"
    assert "2 of 2 indices of ArgMax point at equal values" in rows(report)["i"].detail


def test_the_second_stops_at_a_node():
    def model(lengths):
        nodes = [helper.make_node("Abs", ["x"], ["a"], "abs"),
                 helper.make_node("Reshape", ["a", "to"], ["b"], "fold"),
                 helper.make_node("Neg", ["b"], ["y"], "neg")]  # fmt: skip
        weights = [constant("to", lengths, np.int64)]
        return model_of(nodes, [info("x", FLOAT, ["n"])], [info("y", FLOAT, None)], weights)

    x = np.ones(12, np.float32)
    report = compare_files(model([3, 4]), model([5, 4]), inputs={"x": x})
    assert not report.passed
    assert report.blame.cause == "stops"
    assert "'fold'" in report.blame.value
    assert any(note.startswith("The second stops at Reshape 'fold'") for note in report.notes)
    assert rows(report)["a"].status == "ok"


def test_only_the_optimiser(monkeypatch):
    """Where an untouched file gives something else than the one with all values as outputs."""
    before = backends.Backend.opened

    def opened(self, model, names=None):
        run = before(self, model, names)
        if names is not None or self.name != "ort":
            return run
        return lambda feeds: {name: array + 1 for name, array in run(feeds).items()}

    monkeypatch.setattr(backends.Backend, "opened", opened)
    report = compare_files(chain(2), backend="ort-no-optimization", against="ort")
    assert not report.passed
    assert report.blame.cause == "optimiser"
    assert [value.status for value in report.outputs] == ["fail"]


@pytest.mark.parametrize("backend", list(backends.BACKENDS))
def test_models_without_nodes_and_with_constant_outputs(backend):
    ends = [info("x", FLOAT, [2]), info("x", FLOAT, [2])]
    empty = model_of([], ends[:1], ends[1:])
    assert compare_files(empty, empty, backend=backend).passed
    nodes = [helper.make_node("Constant", [], ["y"], value=constant("", [1.0, 2.0]))]
    fixed = model_of(nodes, [], [info("y", FLOAT, [2])])
    other = model_of([], [], [info("y", FLOAT, [2])], [constant("y", [1.0, 3.0])])
    assert compare_files(fixed, fixed, backend=backend).passed
    for pair in ((fixed, other), (other, fixed)):
        assert not compare_files(*pair, backend=backend).passed


def test_sequences():
    """Values that are no tensors are passed over, and outputs that are none are said."""
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
        assert set(rows(report)) == {"a", "y"}
    del model.graph.output[0]
    with pytest.raises(ValueError, match="expected outputs that are tensors"):
        compare_files(model, model)
    # One that a branch reads.
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
def test_narrow_types(kind):
    def model(op):
        nodes = [helper.make_node("Cast", ["x"], ["wide"], to=FLOAT),
                 helper.make_node(op, ["wide"], ["a"], "op"),
                 helper.make_node("Cast", ["a"], ["y"], to=kind)]  # fmt: skip
        return model_of(nodes, [info("x", kind, [5])], [info("y", kind, [5])])

    given = {"x": np.linspace(-1, 1, 5, dtype=np.float32)}
    for backend in backends.BACKENDS:
        assert compare_files(model("Sin"), model("Sin"), backend=backend, inputs=given).passed
        report = compare_files(model("Sin"), model("Tan"), backend=backend, inputs=given)
        assert report.blame.value == "a"


def test_integers_booleans_and_texts():
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
    assert rows(report)["text"].detail == "2 of 2 elements"


def test_inputs_of_other_names_and_missing_ones():
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


def test_arguments_that_make_no_sense(tmp_path):
    with pytest.raises(ValueError, match="expected a second file"):
        compare_files(chain())
    with pytest.raises(ValueError, match="Did you mean 'reference'"):
        compare_files(chain(), against="refrence")
    with pytest.raises(ValueError, match="no 'z'"):
        compare_files(chain(), chain(), inputs={"z": np.ones(3)})
    with pytest.raises(ValueError, match="no 'm'"):
        compare_files(chain(), chain(), dims={"m": 3})
    with pytest.raises(FileNotFoundError, match=r"no such file: .*gone\.onnx"):
        compare_files(chain(), tmp_path / "gone.onnx")
    with pytest.raises(RuntimeError, match="does not run"):
        compare_files(chain(), chain(), shapes={"x": [3, 7]})
    broken = copied(chain())
    broken.graph.node[0].op_type = "NoSuchOp"
    with pytest.raises(RuntimeError, match=r"the second file: .*NoSuchOp"):
        compare_files(chain(), broken)
    unknown = copied(unary("Abs"))
    unknown.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(ValueError, match=r"states no shape\. Say what the inputs are like"):
        compare_files(unknown, unknown)


def test_dims_shapes_and_inputs_are_used():
    report = compare_files(chain(), chain(), dims={"n": 3})
    assert rows(report)["y"].shape == (3, 6)
    assert report.inputs["x"]["invented"] == ""
    assert compare_files(chain(), chain(), shapes={"x": [5, 6]}).inputs["x"]["shape"] == [5, 6]


def test_tolerances():
    wrong = chain(2)
    set_weight(wrong, "b0", weight_of(wrong, "b0") * np.float32(1.001))
    assert not compare_files(chain(2), wrong).passed
    assert compare_files(chain(2), wrong, rtol=1e-1).passed
    assert compare_files(chain(2), wrong, rtol=0, atol=0.1).passed


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


def test_many_absorbed_values_are_cut(capsys):
    """A factor that is divided out again after many nodes."""

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
