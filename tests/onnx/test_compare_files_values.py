"""`myops.onnx.compare_files`: values of every type, and how the report shows them."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx import helper
from rich.console import Console
from surgery_models import FLOAT, info, model_of
from two_files_models import (
    BOOL,
    INT64,
    constant,
    dense_layers,
    loop,
    node_named,
    renamed,
    set_weight,
    values_by_name,
    weight_of,
)

from myops.onnx import compare_files
from myops.onnx.two_files import backends


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
