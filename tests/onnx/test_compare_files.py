"""`myops.onnx.compare_files`: files that agree, faults, nested graphs of If, Loop and Scan."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper
from surgery_models import FLOAT, exported, info, model_of
from two_files_models import (
    constant,
    copied,
    dense_layers,
    loop,
    node_named,
    renamed,
    set_weight,
    values_by_name,
    weight_of,
)

import myops.onnx
from myops.onnx import compare_files
from myops.onnx.two_files import backends, tracing


def test_a_file_agrees_with_itself():
    report = compare_files(dense_layers(), dense_layers())
    assert report.passed
    assert report.first_mismatch is None
    assert report.begins is None
    assert len(report.values) == 12 * 3 + 1
    assert {value.paired for value in report.values} == {"same"}
    assert report.inputs["x"]["shape"] == [16, 6]
    assert "'n'" in report.inputs["x"]["invented"]


def test_renamed_values_are_paired():
    report = compare_files(dense_layers(), renamed(dense_layers(), lambda name: f"{name} größe"))
    assert report.passed
    assert {value.paired for value in report.values} == {"same"}
    assert values_by_name(report)["add3"].other == "add3 größe"
    assert values_by_name(report)["add3"].title == "add3 | add3 größe"


def test_added_and_removed_identity_nodes_are_no_difference():
    other = dense_layers()
    other.graph.node.insert(6, helper.make_node("Identity", ["tanh1"], ["same"], "same"))
    other.graph.node[7].input[0] = "same"
    for pair in ((dense_layers(), other), (other, dense_layers())):
        report = compare_files(*pair)
        assert report.passed
        assert {value.paired for value in report.values} == {"same"}
        assert not report.unmatched


def test_one_wrong_number_in_twelve_layers_is_named():
    wrong = renamed(dense_layers(), lambda name: f"v_{name}")
    bias = weight_of(wrong, "v_b7").copy()
    bias[2] += 0.5
    set_weight(wrong, "v_b7", bias)
    report = compare_files(dense_layers(), wrong)
    assert not report.passed
    for mismatch in (report.first_mismatch, report.begins):
        assert (mismatch.value, mismatch.other, mismatch.cause) == ("add7", "v_add7", "nodes")
        assert mismatch.nodes == ["Add 'node_add7'"]
        assert mismatch.other_nodes == ["Add 'v_node_add7'"]
        assert not mismatch.alone.agrees
        assert any("constant 'b7': values: 1 of 6 differ, by up to 0.5" in text
                   for text in mismatch.evidence)  # fmt: skip
    status = {name: value.status for name, value in values_by_name(report).items()}
    assert status["mul7"] == "ok"
    assert status["add7"] == status["tanh11"] == "fail"
    assert values_by_name(report)["tanh11"].paired == "place"


def test_a_difference_in_shape_is_named():
    wrong = dense_layers()
    set_weight(wrong, "b3", np.zeros((2, 1, 6), np.float32))
    report = compare_files(dense_layers(), wrong, inputs={"x": np.ones((1, 6), np.float32)})
    assert not report.passed
    assert values_by_name(report)["add3"].detail == "shape [2, 1, 6], in the first [1, 6]"
    assert report.first_mismatch.value == report.begins.value == "add3"


def test_a_fault_without_effect_on_outputs_is_absorbed():
    """A fault whose value is multiplied by zero, and a fault that reaches the output."""

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
    assert (report.first_mismatch.value, report.begins.value) == ("d", "d")
    assert {"a", "b"} == {v.name for v in report.values if v.status == "absorbed"}
    assert values_by_name(report)["e"].status == "fail"
    report = compare_files(model(2, 3), model(5, 3))
    assert report.passed
    assert any(note.startswith("2 values inside differ") and note.endswith("is a.")
               for note in report.notes)  # fmt: skip
    assert report.begins is None
    assert {"a", "b"} == {v.name for v in report.values if v.status == "absorbed"}


def test_inherited_and_new_differences_are_distinguished():
    """Each layer alone is within the tolerance; together they are not."""
    depth = 60

    def model(factor):
        nodes = [helper.make_node("Mul", [f"v{i}", "f"], [f"v{i + 1}"]) for i in range(depth)]
        ends = [info("v0", FLOAT, [8]), info(f"v{depth}", FLOAT, [8])]
        return model_of(nodes, ends[:1], ends[1:], [constant("f", factor)])

    report = compare_files(model(1.0), model(1.00001))
    assert not report.passed
    assert report.first_mismatch.cause == "rounding"
    assert report.first_mismatch.alone.agrees
    assert "inherited from the values before" in report.first_mismatch.evidence[-1]
    assert values_by_name(report)["v1"].status == "ok"
    # A later layer with a larger error is the first mismatch.
    wrong = model(1.00001)
    wrong.graph.initializer.append(constant("g", 1.1))
    wrong.graph.node[40].input[1] = "g"
    report = compare_files(model(1.0), wrong)
    assert report.first_mismatch.cause == "nodes"
    assert report.first_mismatch.value == "v41"
    origins = {v.name: v.origin for v in report.values if v.status == "fail"}
    assert {name for name, origin in origins.items() if origin == "arises"} == {"v41"}
    assert origins["v39"] == origins["v42"] == origins["v60"] == "inherited"


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_lowered_and_simplified_files_agree(exporter):
    model = exported("upscale", exporter)
    for other in (myops.onnx.lower(model), myops.onnx.simplify(model, check=False).model):
        report = compare_files(model, other)
        assert report.passed, report.notes
        assert len(report.values) >= 4
        assert len({value.name for value in report.values}) == len(report.values)


def test_files_of_both_exporters_agree():
    report = compare_files(exported("branches"), exported("branches", "torchscript"))
    assert report.passed
    assert len(report.values) == 11
    assert {value.paired for value in report.values} == {"same"}


def folded(bias):
    """A convolution and a normalisation, and one convolution into which both are folded."""
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


def test_a_folded_normalisation_is_paired_by_its_values():
    report = compare_files(*folded([0.1, -0.2, 0.3, 0.4]))
    assert report.passed
    norm = values_by_name(report)["norm"]
    assert (norm.other, norm.paired) == ("conv", "numbers")
    assert [item.path for item in report.unmatched] == ["conv"]


def test_values_inside_if_and_loop_are_compared():
    report = compare_files(loop(), loop())
    assert report.passed, report.notes
    assert not report.notes
    inside = {(value.name, len(value.where)): value for value in report.values if value.where}
    assert inside["scaled", 1].iterations == 4
    # With |x| around 1, the state passes 9 in the third or fourth iteration only.
    assert 1 <= inside["out_then", 2].iterations < 4
    assert inside["out_then", 2].iterations + inside["out_else", 2].iterations == 4
    assert "'repeat' (Loop) body > 'turn' (If) then_branch" in inside["out_then", 2].title


def test_traced_values_in_a_loop_equal_numpy():
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
def test_a_fault_inside_an_if_inside_a_loop_is_found(growing):
    wrong = loop(growing=growing)
    node_named(wrong.graph, "then_Neg").op_type = "Exp"
    x = np.float32([1.0, 2.0, 0.5])  # scaled: 2 4 1, 4 8 2, 8 16 4: the third passes the limit
    report = compare_files(loop(growing=growing), wrong, inputs={"x": x})
    assert not report.passed
    assert report.first_mismatch.value == "state_out"
    inside = next(v for v in report.values if v.name == "out_then")
    assert inside.status == "fail"
    assert "first in iteration 3" in inside.detail
    start = "Inside, the first value that differs is out_then in 'repeat' (Loop) body > 'turn' (If)"
    assert any(text.startswith(start) for text in report.first_mismatch.evidence)
    # Where the branch is not taken, nothing differs.
    if not growing:
        assert compare_files(loop(), wrong, inputs={"x": x / 100}).passed


def test_a_difference_inside_a_loop_without_effect_is_absorbed():
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


def test_long_loops_are_traced_for_100_iterations():
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


def test_values_inside_scan_are_compared():
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
    assert report.first_mismatch.value in ("last", "all")


def test_a_body_that_differs_when_run_alone_is_noted(monkeypatch):
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


def test_a_loop_without_a_condition_is_traced():
    model = loop()
    node_named(model.graph, "repeat").input[1] = ""
    report = compare_files(model, model)
    assert report.passed
    assert not report.notes
    assert next(v for v in report.values if v.name == "scaled").iterations == 4
