"""simplify compares its result with the model, in every branch, and leaves large weights alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from surgery_models import FLOAT, exported, info, model_of, run

from myops.onnx.graph import structure
from myops.onnx.surgery import _detached_weights, slimming
from myops.onnx.surgery.slimming import SimplifyError, simplify


def test_a_wrong_result_of_the_tool_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "small.onnx"
    model = exported("upscale")
    correct = slimming._slim

    def corrupt(*given: Any) -> onnx.ModelProto:
        result = correct(*given)
        bias = next(t for t in result.graph.initializer if t.name.endswith("tail.bias"))
        array = numpy_helper.to_array(bias) + np.float32(0.01)
        bias.CopyFrom(numpy_helper.from_array(array, bias.name))
        return result

    def lose(*given: Any) -> onnx.ModelProto:
        result = correct(*given)
        node = next(n for n in result.graph.node if n.domain == "myops")
        node.CopyFrom(helper.make_node("Identity", node.input[:1], node.output))
        return result

    for fault, text in ((corrupt, "output 'y' differs by"), (lose, "lost custom nodes: 1 myops")):
        monkeypatch.setattr(slimming, "_slim", fault)
        with pytest.raises(SimplifyError, match=text):
            simplify(model, target)
    assert not target.exists()


def test_a_model_that_refuses_random_inputs_needs_shapes() -> None:
    inputs = [info("X", FLOAT, ["n"]), info("I", onnx.TensorProto.INT64, ["m", "n"])]
    nodes = [helper.make_node("Reshape", ["X", "shape"], ["Y"])]
    shape = numpy_helper.from_array(np.int64([7, 3]), "shape")
    model = model_of(nodes, inputs[:1], [info("Y", FLOAT, [7, 3])], [shape])
    with pytest.raises(ValueError, match="does not run on random inputs"):
        simplify(model)
    assert simplify(model, shapes={"X": [21]}).difference == 0
    assert simplify(model, inputs={"X": np.ones(21, np.float32)}).difference == 0
    assert simplify(model, check=False).difference is None
    with pytest.raises(ValueError, match="the model has no input 'Z'; its input is X"):
        simplify(model, shapes={"Z": [21]})


def branching() -> onnx.ModelProto:
    """x * 3 where the condition holds, else x - 1 - 1; random inputs are never above 9."""
    then = helper.make_graph([helper.make_node("Mul", ["x", "three"], ["t"])], "then", [],
                             [info("t", FLOAT, [4])])  # fmt: skip
    other = helper.make_graph(
        [helper.make_node("Sub", [a, "1"], [b]) for a, b in ("xu", "ue")],
        "else", [], [info("e", FLOAT, [4])],
    )  # fmt: skip
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0),
        helper.make_node("Greater", ["most", "nine"], ["c"]),
        helper.make_node("If", ["c"], ["y"], "choice", then_branch=then, else_branch=other),
    ]
    numbers = [numpy_helper.from_array(np.float32(n), name)
               for name, n in (("nine", 9), ("three", 3), ("1", 1))]  # fmt: skip
    return model_of(nodes, [info("x", FLOAT, [4])], [info("y", FLOAT, [4])], numbers)


@pytest.mark.parametrize("branch", ["then", "else"])
@pytest.mark.parametrize("depth", [0, 1])
def test_every_branch_is_compared(branch: str, depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool breaks one branch, which random inputs may never take."""
    import onnxslim

    model = branching()
    if depth:  # inside a branch of another If
        inner = helper.make_graph(model.graph.node, "inner", [], model.graph.output)
        zero = helper.make_graph([helper.make_node("Identity", ["x"], ["z"])], "zero", [],
                                 [info("z", FLOAT, [4])])  # fmt: skip
        nodes = [helper.make_node("If", ["flag"], ["out"], "outer", then_branch=inner,
                                  else_branch=zero)]  # fmt: skip
        inputs = [*model.graph.input, info("flag", onnx.TensorProto.BOOL, [])]
        model = model_of(nodes, inputs, [info("out", FLOAT, [4])], model.graph.initializer)
    assert simplify(model).difference == 0
    slim = onnxslim.slim

    def breaking(given: onnx.ModelProto, **options: Any) -> onnx.ModelProto:
        result = slim(given, **options)
        for graph in structure.graphs_of(result.graph):
            for node in graph.node:
                if node.name == "choice":
                    (body,) = [a.g for a in node.attribute if a.name == f"{branch}_branch"]
                    body.node[0].op_type = "Div" if branch == "then" else "Add"
        return result

    monkeypatch.setattr(onnxslim, "slim", breaking)
    with pytest.raises(SimplifyError, match=f"'choice'.* takes its {branch} branch|differs"):
        simplify(model)


def test_nested_choices_do_not_crash() -> None:
    """ONNX Runtime crashed when the conditions of nested If nodes were made constant."""

    def identity(name: str) -> onnx.GraphProto:
        node = helper.make_node("Identity", ["x"], [name])
        return helper.make_graph([node], name, [], [info(name, FLOAT, [4])])

    inner = identity("n0")
    for number in range(1, 20):
        node = helper.make_node("If", ["c"], [f"n{number}"], then_branch=inner,
                                else_branch=identity(f"e{number}"))  # fmt: skip
        inner = helper.make_graph([node], f"g{number}", [], [info(f"n{number}", FLOAT, [4])])
    inputs = [info("x", FLOAT, [4]), info("c", onnx.TensorProto.BOOL, [])]
    result = simplify(model_of(inner.node, inputs, inner.output))
    assert result.difference == 0
    assert not result.notes


@pytest.mark.parametrize("source", ["path", "external", "proto", "bytes"])
def test_large_weights_are_left_unchanged(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for a model over 2 GB, with a lower limit: large weights stay outside, all else is
    simplified."""
    rng = np.random.default_rng(0)
    big = [numpy_helper.from_array(rng.random((90, 90), np.float32), name) for name in "uvw"]
    nodes = [
        helper.make_node("MatMul", ["x", "u"], ["a"]),
        helper.make_node("Identity", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "v"], ["y"]),
    ]
    model = model_of(nodes, [info("x", FLOAT, ["n", 90])], [info("y", FLOAT, ["n", 90])], big)
    x = rng.random((3, 90), np.float32)
    (wanted,) = run(model, x=x)
    path = tmp_path / "large.onnx"
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    onnx.save(copy, path, save_as_external_data=source == "external", location="large.data",
              size_threshold=0)  # fmt: skip
    forms = {"proto": model, "bytes": path.read_bytes()}
    monkeypatch.setattr(_detached_weights, "FROM", 60_000)
    monkeypatch.setattr(_detached_weights, "MOST", 40_000)
    result = simplify(forms.get(source, path), tmp_path / "small.onnx")
    assert result.difference == 0
    assert "The 2 largest weights were left as they are" in result.notes[0] or (
        "The 3 largest" in result.notes[0]
    )
    assert result.after == {"MatMul": 2}
    written = onnx.load(tmp_path / "small.onnx")
    assert [item.name for item in written.graph.input] == ["x"]
    assert {item.name for item in written.graph.initializer} == {"u", "v"}
    np.testing.assert_array_equal(run(written, x=x)[0], wanted)


def test_large_constant_nodes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_detached_weights, "FROM", 1000)
    ones = numpy_helper.from_array(np.ones(500, np.float32))
    constant = helper.make_node("Constant", [], ["w"], value=ones)
    nodes = [constant, helper.make_node("Add", ["x", "w"], ["y"])]
    model = model_of(nodes, [info("x", FLOAT, [500])], [info("y", FLOAT, [500])])
    with pytest.raises(ValueError, match=r"in Constant nodes .* expected less than 2 GiB"):
        simplify(model)
