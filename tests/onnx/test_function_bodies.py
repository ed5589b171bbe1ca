"""Function bodies: a model runs with our library and without it."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from node_models import (
    Call,
    branches,
    check,
    error,
    model_of,
    operators,
    resize_model,
    run_plain,
    run_reference,
    tolerance,
)
from onnx import TensorProto, helper, numpy_helper
from runtimes import ONNX_TYPES

import myops.onnx
import myops.ort
from myops import _description
from myops.onnx import MissingBodyWarning, add_function_bodies, lower, remove_function_bodies

FACTORS = np.array([1.7, 2.3])
SMOOTH = {"mode": "linear", "axes": [2, 3], "torch_arithmetic": True}
PICK = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor",
        "axes": [2, 3], "torch_arithmetic": True}  # fmt: skip
CROP = {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize", "axes": [2, 3],
        "extrapolation_value": 3.0}  # fmt: skip


def picture(dtype: str = "float32") -> np.ndarray:
    rng = np.random.default_rng(1)
    numbers = rng.random((1, 2, 5, 7))
    return (numbers * 255 if dtype == "uint8" else numbers).astype(dtype)


X = picture()
TWICE = np.float32([1, 1, 2, 2])
SIZES = np.int64([1, 2, 7, 3])

# Models, named by the difference between their nodes.
MODELS: dict[str, list[Call]] = {
    "one node": [Call(X, scales=TWICE, attributes={"mode": "linear"})],
    "lengths and numbers": [
        Call(X, scales=TWICE, attributes={"mode": "linear"}),
        Call(X[:, :, :3], scales=np.float32([1, 1, 1.5, 3]), attributes={"mode": "linear"}),
    ],
    "dtype of scales": [
        Call(X, scales=FACTORS, attributes=SMOOTH),
        Call(X, scales=FACTORS.astype(np.float32), attributes=SMOOTH),
    ],
    "scales or sizes": [
        Call(X, scales=TWICE, attributes={"mode": "linear"}),
        Call(X, sizes=SIZES, attributes={"mode": "linear"}),
    ],
    "mode": [
        Call(X, scales=FACTORS, attributes=SMOOTH),
        Call(X, scales=FACTORS, attributes=PICK),
    ],
    "axes": [
        Call(X, scales=FACTORS, attributes=SMOOTH),
        Call(X, scales=np.array([1.0, 1, 3, 1.5]), attributes={**SMOOTH, "axes": []}),
    ],
    "rank": [
        Call(X, scales=TWICE, attributes={"mode": "linear"}),
        Call(X[0], scales=np.float32([1, 1, 2]), attributes={"mode": "linear"}),
    ],
    "dtype": [
        Call(picture(dtype), scales=FACTORS, attributes=SMOOTH)
        for dtype in ("float32", "uint8", "float64", "float16")
    ],
    "everything": [
        Call(X, scales=FACTORS, attributes=SMOOTH),
        Call(X, scales=FACTORS, attributes=PICK),
        Call(X, scales=TWICE),
        Call(X, sizes=SIZES, attributes={"mode": "cubic", "exclude_outside": True}),
        Call(X, np.float32([0.1, 0.2, 0.8, 0.9]), np.float32(FACTORS), attributes=CROP),
    ],
}
PLAIN = ("one node", "lengths and numbers", "dtype of scales")
NEEDS = {"dtype": 15, **{name: 12 for name in MODELS if name not in (*PLAIN, "dtype")}}


def assert_close(results: Sequence[np.ndarray], calls: Sequence[Call]) -> None:
    for result, call in zip(results, calls, strict=True):
        assert error(result, call.expected()) <= tolerance(call)


def without_warnings(model: onnx.ModelProto) -> onnx.ModelProto:
    with warnings.catch_warnings():
        warnings.simplefilter("error", MissingBodyWarning)
        return add_function_bodies(model)


@pytest.mark.parametrize("opset", [10, 11, 12, 13, 15, 17, 18, 19, 20, 22, 24])
@pytest.mark.parametrize("name", MODELS)
def test_one_body_serves_all_nodes_of_a_type(name: str, opset: int) -> None:
    calls = MODELS[name]
    model, feeds, _ = resize_model(calls, opset)
    before = model.SerializeToString()
    if opset < NEEDS.get(name, 0):
        with pytest.warns(MissingBodyWarning, match=r"library of myops registered"):
            assert not add_function_bodies(model).functions
        return
    portable = without_warnings(model)
    assert model.SerializeToString() == before
    check(portable)
    assert [f.name for f in portable.functions] == ["Resize"]
    assert_close(run_plain(portable, feeds), calls)


@pytest.mark.parametrize("name", MODELS)
def test_results_with_the_library_are_the_kernels(name: str) -> None:
    calls = MODELS[name]
    model, feeds, expected = resize_model(calls)
    session = myops.ort.session(without_warnings(model))
    for result, wanted in zip(session.run(None, feeds), expected, strict=True):
        np.testing.assert_array_equal(result, wanted)


def test_the_library_takes_precedence_over_the_body() -> None:
    """A wrong body shows which of both computed."""
    call = MODELS["one node"][0]
    model, feeds, expected = resize_model(call)
    portable = add_function_bodies(model)
    function = portable.functions[0]
    del function.node[:]
    function.node.append(helper.make_node("Neg", ["X"], ["Y"]))
    portable.graph.output[0].type.tensor_type.ClearField("shape")
    np.testing.assert_array_equal(run_plain(portable, feeds)[0], -call.x)
    result = myops.ort.session(portable).run(None, feeds)[0]
    np.testing.assert_array_equal(result, expected[0])


def test_bodies_are_added_and_removed() -> None:
    model = resize_model(MODELS["one node"], 20)[0]
    model.ir_version = 7
    model.functions.append(helper.make_function(
        "other", "Twice", ["x"], ["y"], [helper.make_node("Add", ["x", "x"], ["y"])],
        [helper.make_opsetid("", 20)]))  # fmt: skip
    portable = add_function_bodies(model)
    assert portable.ir_version == 8
    assert [f.name for f in portable.functions] == ["Twice", "Resize"]
    assert add_function_bodies(portable) == portable
    bare = remove_function_bodies(portable)
    assert [f.name for f in bare.functions] == ["Twice"]
    assert bare.graph == model.graph
    function = portable.functions[1]
    assert function.domain == "myops"
    assert [(item.domain, item.version) for item in function.opset_import] == [("", 20)]
    names = [item.name for item in _description.OPS["resize"].attributes]
    assert [item.name for item in function.attribute_proto] == names


def test_adding_twice_changes_nothing() -> None:
    portable = add_function_bodies(resize_model(MODELS["everything"])[0])
    assert add_function_bodies(portable) == portable


def test_lowering_removes_bodies() -> None:
    model, feeds, _ = resize_model(MODELS["everything"])
    standard = lower(add_function_bodies(model))
    assert not standard.functions
    assert_close(run_plain(standard, feeds), MODELS["everything"])


def test_a_body_serves_other_lengths_and_constants() -> None:
    """The lengths and constants of a model may be edited without changing the body."""
    for attributes in (PICK, SMOOTH):
        model = resize_model(Call(X, scales=FACTORS, attributes=attributes))[0]
        portable = add_function_bodies(model)
        for item in (*portable.graph.input, *portable.graph.output):
            for number, dim in enumerate(item.type.tensor_type.shape.dim):
                dim.dim_param = f"{item.name}_{number}"
        other = Call(np.random.default_rng(2).random((2, 3, 9, 4), np.float32),
                     scales=np.array([0.55, 3.1]), attributes=attributes)  # fmt: skip
        portable.graph.initializer[0].CopyFrom(numpy_helper.from_array(other.scales, "scales0"))
        assert_close(run_plain(portable, {"X0": other.x}), [other])


def test_a_body_serves_scales_that_are_an_input() -> None:
    call = Call(X, scales=FACTORS, constant=False, dynamic=True, attributes=SMOOTH)
    portable = add_function_bodies(resize_model(call)[0])
    for factors in ([1.7, 2.3], [0.5, 1.0], [7 / 3, 27 / 5]):
        call.scales = np.array(factors)
        assert_close(run_plain(portable, {"X0": X, "scales0": call.scales}), [call])


@pytest.mark.parametrize("flag", [True, False])
def test_nodes_in_branches_and_loops_get_a_body(flag: bool) -> None:
    model, feeds = branches()
    portable = add_function_bodies(model)
    check(portable)
    feeds["flag"] = np.array(flag)
    expected = myops.ort.session(portable).run(None, feeds)[0]
    np.testing.assert_array_equal(run_plain(portable, feeds)[0], expected)


@pytest.mark.parametrize("name", ["one node", "scales or sizes", "mode"])
def test_onnx_reference_runs_the_body(name: str) -> None:
    """If all inputs are given, even empty ones: it supports no optional inputs of functions."""
    model, feeds, _ = resize_model(MODELS[name])
    portable = add_function_bodies(model)
    for node in portable.graph.node:
        if node.op_type == "Resize":
            given = [*node.input, "", "", ""][:4]
            del node.input[:]
            spare = ["", "no_roi", "no_scales", "no_sizes"]
            node.input.extend(name or other for name, other in zip(given, spare, strict=True))
    for title, kind in (("no_roi", np.float32), ("no_scales", np.float32), ("no_sizes", np.int64)):
        portable.graph.initializer.append(numpy_helper.from_array(np.array([], kind), title))
    assert_close(run_reference(portable, feeds), MODELS[name])


def test_extracted_models_keep_their_body(tmp_path: Any) -> None:
    model, feeds, _ = resize_model(MODELS["mode"])
    portable = add_function_bodies(model)
    whole, part = tmp_path / "whole.onnx", tmp_path / "part.onnx"
    onnx.save(onnx.shape_inference.infer_shapes(portable), whole)
    onnx.utils.extract_model(str(whole), str(part), ["X1"], ["Y1"])
    result = run_plain(onnx.load(part), {"X1": feeds["X1"]})
    assert_close(result, MODELS["mode"][1:])


def deform_model(dtype: int, opset: int) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Convolutions with and without a bias and a mask, one of them with another stride."""
    rng = np.random.default_rng(3)
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    shapes = {"X": (2, 2, 5, 4), "W": (2, 2, 3, 3), "offset": (2, 18, 3, 2), "B": (2,),
              "mask": (2, 9, 3, 2), "near": (2, 18, 2, 1), "seen": (2, 9, 2, 1)}  # fmt: skip
    feeds = {name: rng.standard_normal(shape).astype(kind) for name, shape in shapes.items()}
    calls: list[tuple[list[str], dict[str, Any]]] = [
        (["X", "W", "offset", "B", "mask"], {}),
        (["X", "W", "offset"], {}),
        (["X", "W", "offset", "", "mask"], {}),
        (["X", "W", "near", "B"], {"strides": [2, 2]}),
        (["X", "W", "near", "", "seen"], {"strides": [2, 2]}),
    ]
    nodes = [helper.make_node("DeformConv", names, [f"Y{i}"], domain="myops", **attributes)
             for i, (names, attributes) in enumerate(calls)]  # fmt: skip
    inputs = [helper.make_tensor_value_info(name, dtype, [f"{name}{i}" for i in range(len(shape))])
              for name, shape in shapes.items()]  # fmt: skip
    outputs = [helper.make_tensor_value_info(node.output[0], dtype, list("abcd")) for node in nodes]
    return model_of(nodes, inputs, outputs, opset=opset, ir=9), feeds


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE])
def test_optional_inputs_that_are_passed_on_make_no_other_kind(dtype: int) -> None:
    model, feeds = deform_model(dtype, 20)
    portable = without_warnings(model)
    check(portable)
    assert [list(node.input) for node in portable.graph.node] == [
        list(node.input) for node in model.graph.node
    ]
    limit = 1e-2 if dtype == TensorProto.FLOAT16 else 1e-5
    expected = myops.ort.session(portable).run(None, feeds)
    for result, wanted in zip(run_plain(portable, feeds), expected, strict=True):
        np.testing.assert_allclose(result, wanted, rtol=limit, atol=limit)


@pytest.mark.parametrize(("dtype", "opset"), [(TensorProto.FLOAT, 18), (TensorProto.BFLOAT16, 20)])
def test_optional_inputs_that_are_computed_with_make_another_kind(dtype: int, opset: int) -> None:
    with pytest.warns(MissingBodyWarning, match="some nodes have the input B and others do not"):
        assert not add_function_bodies(deform_model(dtype, opset)[0]).functions


def test_one_body_of_my_add_serves_every_dtype() -> None:
    """The body adapts to the dtype of each node."""
    nodes, inputs, outputs, feeds = [], [], [], {}
    for dtype in _description.OPS["my_add"].types["T"]:
        half = dtype == "bfloat16"
        kind = TensorProto.FLOAT if half else ONNX_TYPES[dtype]
        inputs.append(helper.make_tensor_value_info(f"{dtype}_in", kind, [3]))
        outputs.append(helper.make_tensor_value_info(f"{dtype}_out", kind, [3]))
        feeds[f"{dtype}_in"] = np.array([1, 2, 77]).astype("float32" if half else dtype)
        names = [f"{dtype}_in", f"{dtype}_out"]
        if half:
            nodes.append(helper.make_node("Cast", names[:1], ["a"], to=TensorProto.BFLOAT16))
            nodes.append(helper.make_node("MyAdd", ["a", "a"], ["c"], domain="myops"))
            nodes.append(helper.make_node("Cast", ["c"], names[1:], to=TensorProto.FLOAT))
        else:
            nodes.append(helper.make_node("MyAdd", names[:1] * 2, names[1:], domain="myops"))
    portable = without_warnings(model_of(nodes, inputs, outputs))
    check(portable)
    results = run_plain(portable, feeds)
    for result, item in zip(results, feeds.values(), strict=True):
        assert result.dtype == item.dtype
        assert result.tolist()[:2] == [3, 6]
        assert result.tolist()[2] in (231, 232)  # bfloat16 has no 231


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("opset", [12, 17, 24])
def test_one_body_serves_several_ranks_of_known_lengths(opset: int, dtype: str) -> None:
    """The branches for other ranks must not fail to load: their lengths do not fit the node."""
    shapes = [
        ((2, 3, 5), (5,)),
        ((3, 5), (5,)),
        ((5,), (2, 3, 5)),
        ((2, 7), (1, 7)),
        ((0, 5), (5,)),
    ]
    info, kind = helper.make_tensor_value_info, ONNX_TYPES[dtype]
    nodes, inputs, outputs, feeds, expected = [], [], [], {}, []
    for number, pair in enumerate(shapes):
        names = [f"a{number}", f"b{number}"]
        for name, shape in zip(names, pair, strict=True):
            feeds[name] = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
            inputs.append(info(name, kind, shape))
        nodes.append(helper.make_node("MyAdd", names, [f"c{number}"], domain="myops"))
        expected.append(2 * feeds[names[0]] + feeds[names[1]])
        outputs.append(info(f"c{number}", kind, expected[-1].shape))
    portable = without_warnings(model_of(nodes, inputs, outputs, opset=opset))
    check(portable)
    for result, wanted in zip(run_plain(portable, feeds), expected, strict=True):
        np.testing.assert_array_equal(result, wanted)
    for result, wanted in zip(run_reference(portable, feeds), expected, strict=True):
        np.testing.assert_array_equal(result, wanted)


def test_my_add_has_a_short_body() -> None:
    info = helper.make_tensor_value_info
    node = helper.make_node("MyAdd", ["X", "X"], ["Y"], domain="myops")
    portable = add_function_bodies(model_of([node], [info("X", 1, [2])], [info("Y", 1, [2])]))
    assert [n.op_type for n in portable.functions[0].node] == ["Constant", "Mul", "Add"]
    assert operators(portable) == ["MyAdd"]
    assert run_plain(portable, {"X": np.float32([1, 2])})[0].tolist() == [3, 6]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("constant", [True, False])
def test_conditions_of_a_body_are_folded_at_load_time(
    name: str, constant: bool, tmp_path: Any
) -> None:
    """ONNX Runtime selects the branch for each node while it loads the model."""
    calls = [dataclasses.replace(call, constant=constant, dynamic=True) for call in MODELS[name]]
    model = add_function_bodies(resize_model(calls)[0])
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    onnxruntime.InferenceSession(model.SerializeToString(), options)
    found = operators(onnx.load(options.optimized_model_filepath))
    assert "If" not in found
    assert "Resize" in found or "Gather" in found
