"""OpSchemas: the checker, shape inference and graph tools of onnx support our nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from node_models import model_of
from onnx import TensorProto, helper, numpy_helper

import myops.onnx
from myops import _description
from myops.onnx.schema import schema_for

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
value_info = helper.make_tensor_value_info


@pytest.fixture(autouse=True)
def _registered() -> None:
    myops.onnx.register_schemas()


def inferred(model: onnx.ModelProto, name: str, **options: Any) -> list[Any] | None:
    """The shape of a value, after strict inference."""
    result = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, **options)
    for item in [*result.graph.value_info, *result.graph.output]:
        if item.name == name:
            tensor = item.type.tensor_type
            assert tensor.elem_type
            if not tensor.HasField("shape"):
                return None
            return [dim.dim_value or dim.dim_param for dim in tensor.shape.dim]
    raise AssertionError(f"{name} has no type")


def resize(*names: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node("Resize", names, ["M"], "resize", domain="myops", **attributes)


def between(node: onnx.NodeProto, dims: Any, constants: Any = (), more: Any = ()) -> Any:
    """X -> node -> Y, with a Relu on each side, so that the types of X and Y are not those of
    `node`."""
    nodes = [
        helper.make_node("Relu", ["X"], ["R"]),
        *more,
        node,
        helper.make_node("Relu", ["M"], ["Y"]),
    ]
    arrays = [numpy_helper.from_array(array, name) for name, array in dict(constants).items()]
    x, y = value_info("X", FLOAT, dims), value_info("Y", FLOAT, None)
    return model_of(nodes, [x], [y], arrays)


def test_registering_twice_changes_nothing() -> None:
    myops.onnx.register_schemas()
    for info in _description.onnx_ops():
        assert onnx.defs.has(info.onnx_type, domain="myops")
        assert schema_for(info) is schema_for(info)


def test_a_bool_attribute_is_an_int_with_a_default() -> None:
    attribute = onnx.defs.get_schema("Resize", 1, "myops").attributes["antialias"]
    assert attribute.type == onnx.defs.OpSchema.AttrType.INT
    assert not attribute.required
    assert attribute.default_value.i == 0
    mode = onnx.defs.get_schema("Resize", 1, "myops").attributes["mode"]
    assert mode.description.endswith('One of "nearest", "linear", "cubic", "area".')


def test_constant_scales_give_lengths_and_keep_dimension_names() -> None:
    model = between(resize("R", "", "s"), ["N", 3, 5, "w"], {"s": np.float32([1, 1, 2, 2])})
    shape = inferred(model, "M")
    assert shape is not None
    assert shape[:3] == ["N", 3, 10]
    assert shape[3] not in (5, "w")  # unknown: onnx invents a name


def test_inferred_lengths_are_rounded_as_by_the_kernel() -> None:
    scales = {"s": np.float64([1, 1, 7 / 3, 1])}
    assert inferred(between(resize("R", "", "s"), [1, 1, 27, 4], scales), "M") == [1, 1, 62, 4]
    node = resize("R", "", "s", torch_arithmetic=1)
    assert inferred(between(node, [1, 1, 27, 4], scales), "M") == [1, 1, 63, 4]


def test_computed_sizes_are_propagated() -> None:
    shape = helper.make_node("Shape", ["R"], ["z"])
    model = between(resize("R", "", "", "z"), [1, 3, 5, 4], more=[shape])
    assert inferred(model, "M", data_prop=True) == [1, 3, 5, 4]


def test_an_unknown_rank_gives_a_type() -> None:
    model = between(resize("R", "", "s"), None, {"s": np.float32([1, 2])})
    assert inferred(model, "M") is None


def test_dimension_names_are_broadcast() -> None:
    node = helper.make_node("MyAdd", ["A", "B"], ["M"], domain="myops")
    relu = helper.make_node("Relu", ["M"], ["Y"])
    inputs = [value_info("A", FLOAT, ["N", 1, 4]), value_info("B", FLOAT, ["C", 1])]
    model = model_of([node, relu], inputs, [value_info("Y", FLOAT, None)])
    assert inferred(model, "M") == ["N", "C", 4]


def test_the_checker_refuses_unknown_attributes() -> None:
    constants = {"s": np.float32([1, 1, 2, 2])}
    good = between(resize("R", "", "s", antialias=1, mode="linear"), [1, 3, 5, 4], constants)
    good.graph.output[0].CopyFrom(value_info("Y", FLOAT, [1, 3, 10, 8]))
    onnx.checker.check_model(good, full_check=True)
    bad = between(resize("R", "", "s", antialis=1), [1, 3, 5, 4], constants)
    bad.graph.output[0].CopyFrom(good.graph.output[0])
    with pytest.raises(onnx.checker.ValidationError, match="antialis"):
        onnx.checker.check_model(bad)


def test_a_wrong_dtype_is_refused() -> None:
    node = helper.make_node("MyAdd", ["A", "A"], ["M"], domain="myops")
    a = value_info("A", TensorProto.BOOL, [2])
    model = model_of([node], [a], [value_info("M", TensorProto.BOOL, [2])])
    with pytest.raises(ValueError, match="my_add: a: got dtype bool"):
        onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)


@pytest.mark.parametrize("strict", [False, True])
def test_refusals_have_the_kernels_text(strict: bool) -> None:
    model = between(resize("R", "", "s"), [1, 3, 5, 4], {"s": np.float32([1, 2, 2])})
    with pytest.raises(ValueError, match="resize: scales: got length 3, expected length 4"):
        onnx.shape_inference.infer_shapes(model, strict_mode=strict)


def test_onnx_extract_model_accepts_our_nodes(tmp_path: Any) -> None:
    constants = {"s": np.float32([1, 1, 2, 2])}
    model = between(resize("R", "", "s"), [1, 3, 5, 4], constants)
    model.graph.output[0].CopyFrom(value_info("Y", FLOAT, [1, 3, 10, 8]))
    whole, part = tmp_path / "whole.onnx", tmp_path / "part.onnx"
    onnx.save(model, whole)
    onnx.utils.extract_model(str(whole), str(part), ["R"], ["M"])
    extracted = onnx.load(part)
    assert [node.op_type for node in extracted.graph.node] == ["Resize"]
    dims = extracted.graph.output[0].type.tensor_type.shape.dim
    assert [dim.dim_value for dim in dims] == [1, 3, 10, 8]
