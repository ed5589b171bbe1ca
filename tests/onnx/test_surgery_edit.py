"""edit: names, attributes, op types, dimensions, and refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from surgery_models import FLOAT, captured, exported, info, linear, model_of, run

import myops.ort
from myops.onnx.surgery.editing import StaleShapeWarning, edit


def test_op_types_replaces_an_op(tmp_path: Path) -> None:
    path = tmp_path / "linear.onnx"
    onnx.save(linear(), path)
    a, x, b = np.random.rand(3, 10, 10).astype(np.float32)
    np.testing.assert_allclose(run(str(path), a=a, x=x, b=b)[0], a * x + b, rtol=1e-6)
    edit(path, tmp_path / "minus.onnx", op_types={"output": "Sub"})
    result = run(str(tmp_path / "minus.onnx"), a=a, x=x, b=b)[0]
    np.testing.assert_allclose(result, a * x - b, rtol=1e-5, atol=1e-6)


def test_op_types_replaces_an_op_by_ours_with_a_body() -> None:
    changed = edit(linear(), op_types={"output": "myops::MyAdd"})
    a, x, b = np.random.rand(3, 10, 10).astype(np.float32)
    np.testing.assert_allclose(run(changed, a=a, x=x, b=b)[0], 2 * a * x + b, rtol=1e-5)
    back = edit(changed, op_types={"output": "Add"})
    np.testing.assert_allclose(run(back, a=a, x=x, b=b)[0], a * x + b, rtol=1e-5)


def test_several_edits_use_the_old_names() -> None:
    model = linear()
    changed = edit(
        model, rename={"c": "x", "x": "input"}, rename_nodes={"output": "last"},
        op_types={"output": "Sub"}, dims={("a", 0): "n", ("x", 0): "n", ("b", -2): "n"},
    )  # fmt: skip
    assert [item.name for item in changed.graph.input] == ["a", "input", "b"]
    assert list(changed.graph.node[0].input) == ["a", "input"]
    assert list(changed.graph.node[1].input) == ["x", "b"]
    assert changed.graph.node[1].name == "last"
    dims = changed.graph.output[0].type.tensor_type.shape.dim
    assert (dims[0].dim_param, dims[1].dim_value) == ("n", 10)
    ones = np.ones((4, 10), np.float32)
    assert run(changed, a=ones, input=ones, b=ones)[0].shape == (4, 10)
    assert model == linear()


def test_renaming_applies_inside_branches() -> None:
    changed = edit(captured(), rename={"mid": "middle", "w": "weight", "Y": "result"})
    x = np.float32([-1, 2, 3])
    for flag in (True, False):
        feeds = {"X": x, "flag": np.array(flag)}
        np.testing.assert_array_equal(run(changed, **feeds)[0], run(captured(), **feeds)[0])
    assert "mid" not in str(changed).replace("middle", "")
    for taken in ("side", "t"):
        with pytest.raises(ValueError, match="the name of another value already"):
            edit(captured(), rename={"mid": taken})
    with pytest.raises(ValueError, match="'t' is inside a body"):
        edit(captured(), rename={"t": "sum"})


def test_attributes_have_the_type_of_the_schema() -> None:
    model = exported("branches")
    name = model.graph.node[0].name
    texts = edit(model, attributes={(name, "strides"): "2,2", (name, "dilations"): None})
    values = edit(model, attributes={(name, "strides"): [2, 2], (name, "dilations"): None})
    assert texts == values
    node = texts.graph.node[0]
    kept = {item.name: item for item in node.attribute}
    assert list(kept["strides"].ints) == [2, 2]
    assert "dilations" not in kept
    shape = [dim.dim_value for dim in texts.graph.value_info[0].type.tensor_type.shape.dim]
    assert shape == [1, 3, 9, 9]
    for value in ("2,x", "1.5,2", [1.5, 2]):
        with pytest.raises(ValueError, match="expected whole numbers"):
            edit(model, attributes={(name, "strides"): value})
    with pytest.raises(ValueError, match=r"Conv has no such attribute. Did you mean 'strides'"):
        edit(model, attributes={(name, "stride"): "2,2"})


def test_editing_our_attribute_renews_the_body() -> None:
    model = exported("upscale")
    node = next(n for n in model.graph.node if n.domain == "myops")
    with pytest.raises(ValueError, match=r"got 'cubics', expected one of .*mean 'cubic'"):
        edit(model, attributes={(node.name, "mode"): "cubics"})
    changed = edit(model, attributes={(node.name, "mode"): "linear"})
    feeds = {"x": np.random.rand(1, 3, 6, 6).astype(np.float32), "factor": np.float32([2, 2])}
    ours = myops.ort.session(changed).run(None, feeds)[0]
    np.testing.assert_allclose(run(changed, **feeds)[0], ours, atol=1e-5)  # the body is new
    assert np.abs(ours - run(model, **feeds)[0]).max() > 1e-3


def test_the_value_of_a_constant_node_is_set() -> None:
    nodes = [helper.make_node("Constant", [], ["k"], "k", value=numpy_helper.from_array(
        np.float32([1, 2])))]  # fmt: skip
    nodes.append(helper.make_node("Add", ["X", "k"], ["Y"]))
    model = model_of(nodes, [info("X", FLOAT, [2])], [info("Y", FLOAT, [2])])
    changed = edit(model, attributes={("k", "value"): "3,4"})
    assert run(changed, X=np.float32([0, 0]))[0].tolist() == [3, 4]


def test_a_constant_that_contradicts_a_dynamic_dimension_is_a_warning() -> None:
    weights = [numpy_helper.from_array(np.int64([1, 16]), "s"),
               numpy_helper.from_array(np.ones((1, 2, 1, 1), np.float32), "w")]  # fmt: skip
    nodes = [helper.make_node("Conv", ["X", "w"], ["c"]),
             helper.make_node("Reshape", ["c", "s"], ["Y"], "flat")]  # fmt: skip
    inputs = [info("X", FLOAT, [1, 2, 4, 4])]
    model = model_of(nodes, inputs, [info("Y", FLOAT, [1, 16])], weights)
    with pytest.warns(StaleShapeWarning, match=r"node 'flat' \(Reshape\) .* \[1, 16\]"):
        edit(model, dims={("X", 0): "n"})
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.int64([-1, 16]), "s"))
    model.graph.value_info.append(info("c", FLOAT, [1, 1, 4, 4]))
    changed = edit(model, dims={("X", 0): "n"})
    assert changed.graph.value_info[0].type.tensor_type.shape.dim[0].dim_param == "n"
    assert run(changed, X=np.ones((3, 2, 4, 4), np.float32))[0].shape == (3, 16)
    assert edit(changed, dims={("X", 0): 5}).graph.output[0].type.tensor_type.shape.dim[
        0].dim_value == 5  # fmt: skip


@pytest.mark.parametrize(
    ("edits", "text"),
    [
        ({"op_types": {"output": "Subb"}}, "no op 'Subb' in domain 'ai.onnx' .*mean 'Sub'"),
        ({"op_types": {"output": "Relu"}}, "the node has 2 inputs, but Relu has 1"),
        ({"op_types": {"output": "Conv"}}, "would not be a valid model.*3 dimensions"),
        ({"op_types": {"outputs": "Sub"}}, "no node 'outputs'. Did you mean 'output'"),
        ({"op_types": {"output": "foo::Sub"}}, "imports no version of the domain 'foo'"),
        ({"attributes": {("output", "axis"): 1}}, "Add has no such attribute. It has none"),
        ({"dims": {("x", 2): "n"}}, "got axis 2, expected -2 to 1"),
        ({"dims": {("x", 0): 7}}, "not be a valid model: .*[Ii]ncompatible dim"),
        ({"dims": {("c", 0): "n"}}, "it is no input of the model"),
        ({"rename": {"nothing": "y"}}, "no value 'nothing'. It has a, x, b, c, output"),
        ({"rename": {"c": "a"}}, "'a' is the name of another value"),
        ({"rename": {"c": ""}}, "empty name"),
    ],
)
def test_refusals_write_nothing(edits: dict, text: str, tmp_path: Path) -> None:
    target = tmp_path / "out.onnx"
    with pytest.raises(ValueError, match=text):
        edit(linear(), target, **edits)
    assert not target.exists()


def test_the_type_of_the_output_is_updated() -> None:
    changed = edit(linear(), op_types={"output": "Greater"})
    assert changed.graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.BOOL


def test_attributes_unknown_to_the_new_op_are_refused() -> None:
    nodes = [helper.make_node("Softmax", ["X"], ["Y"], "soft", axis=0)]
    model = model_of(nodes, [info("X", FLOAT, [2, 2])], [info("Y", FLOAT, [2, 2])])
    with pytest.raises(ValueError, match="attribute 'axis', which Relu does not have"):
        edit(model, op_types={"soft": "Relu"})
    changed = edit(model, op_types={"soft": "Relu"}, attributes={("soft", "axis"): None})
    assert run(changed, X=np.float32([[-1, 2], [3, -4]]))[0].tolist() == [[0, 2], [3, 0]]


def test_an_ambiguous_node_name_is_refused() -> None:
    model = linear()
    for node in model.graph.node:
        node.name = "same"
    with pytest.raises(ValueError, match="2 nodes are called"):
        edit(model, op_types={"same": "Sub"})
    assert edit(model, op_types={"output": "Sub"}).graph.node[1].op_type == "Sub"


def test_shapes_behind_an_unknown_op_keep_only_their_rank() -> None:
    nodes = [helper.make_node("Weird", ["X"], ["a"], domain="foo"),
             helper.make_node("Relu", ["a"], ["Y"])]  # fmt: skip
    model = model_of(nodes, [info("X", FLOAT, [3, 4])], [info("Y", FLOAT, [3, 4])], domains=["foo"])
    model.graph.value_info.append(info("a", FLOAT, [3, 4]))
    graph = edit(model, dims={("X", 0): "n"}).graph
    for item in (*graph.value_info, *graph.output):
        assert item.type.tensor_type.elem_type == FLOAT
        assert [dim.WhichOneof("value") for dim in item.type.tensor_type.shape.dim] == [None] * 2
