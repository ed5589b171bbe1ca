"""lower: nodes in every graph and function are lowered, and refusals say what to do."""

from __future__ import annotations

import numpy as np
import pytest
from node_models import Call, branches, check, model_of, resize_model, run_plain
from onnx import TensorProto, helper
from runtimes import ONNX_TYPES, random_array

import myops.onnx
from myops import _description, _libraries, _numpy_call
from myops.onnx import LoweringError, lower

SCALE_2 = np.float32([1, 1, 2, 2])


@pytest.mark.parametrize("opset", [7, 11, 13, 20])
@pytest.mark.parametrize("dtype", _description.OPS["my_add"].types["T"])
def test_my_add_is_lowered_in_every_dtype(rng: np.random.Generator, dtype: str, opset: int) -> None:
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    a, b = random_array(rng, (3, 1), dtype), random_array(rng, (1, 4), dtype)
    half = dtype == "bfloat16"
    if half and opset < 13:
        return
    kind = TensorProto.FLOAT if half else ONNX_TYPES[dtype]
    nodes = [helper.make_node("MyAdd", ["a", "b"], ["c"], domain="myops")]
    if half:
        nodes = [
            helper.make_node("Cast", ["A"], ["a"], to=TensorProto.BFLOAT16),
            helper.make_node("Cast", ["B"], ["b"], to=TensorProto.BFLOAT16),
            *nodes,
            helper.make_node("Cast", ["c"], ["C"], to=TensorProto.FLOAT),
        ]
    names = ["A", "B", "C"] if half else ["a", "b", "c"]
    infos = [helper.make_tensor_value_info(name, kind, dims)
             for name, dims in zip(names, ([3, 1], [1, 4], [3, 4]), strict=True)]  # fmt: skip
    standard = lower(model_of(nodes, infos[:2], infos[2:], opset=opset, ir=4 if opset < 9 else 8))
    check(standard)
    feeds = {n: v.astype(np.float32) if half else v
             for n, v in zip(names, (a, b), strict=False)}  # fmt: skip
    result = run_plain(standard, feeds)[0]
    expected = _numpy_call.call("my_add", [a, b])[0]
    np.testing.assert_array_equal(result.astype(a.dtype), expected)


@pytest.mark.parametrize("flag", [True, False])
def test_nodes_in_branches_and_loops_are_lowered(flag: bool) -> None:
    model, feeds = branches()
    standard = lower(model)
    check(standard)
    x = feeds["X"]
    chosen = 3 * x if flag else 2 * np.maximum(x, 0) + x
    result = run_plain(standard, {**feeds, "flag": np.array(flag)})[0]
    np.testing.assert_array_equal(result, 9 * chosen)


def test_nodes_in_functions_are_lowered() -> None:
    inner = helper.make_function(
        "other", "Grow", ["x"], ["y"],
        [helper.make_node("Constant", [], ["s"], value_floats=[1.0, 3.0]),
         helper.make_node("Resize", ["x", "", "s"], ["y"], domain="myops")],
        [helper.make_opsetid("", 20), helper.make_opsetid("myops", 1)],
    )  # fmt: skip
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    info = helper.make_tensor_value_info
    nodes = [helper.make_node("Grow", ["X"], ["Y"], domain="other")]
    model = model_of(nodes, [info("X", 1, [2, 3])], [info("Y", 1, [2, 9])])
    model.functions.append(inner)
    model.opset_import.append(helper.make_opsetid("other", 1))
    standard = lower(model)
    check(standard)
    np.testing.assert_array_equal(run_plain(standard, {"X": x})[0], np.repeat(x, 3, axis=1))


def test_two_nodes_with_one_name_are_lowered() -> None:
    info = helper.make_tensor_value_info
    nodes = [helper.make_node("MyAdd", ["X", "X"], ["M"], "same", domain="myops"),
             helper.make_node("MyAdd", ["M", "X"], ["Y"], "same", domain="myops")]  # fmt: skip
    standard = lower(model_of(nodes, [info("X", 1, [2])], [info("Y", 1, [2])]))
    check(standard)
    assert run_plain(standard, {"X": np.float32([1, 2])})[0].tolist() == [7, 14]


def test_unused_constants_are_removed() -> None:
    x = np.zeros((1, 1, 4, 4), np.float32)
    call = Call(x, scales=np.float64([2, 2]), attributes={"axes": [2, 3], "mode": "linear"})
    model = resize_model(call)[0]
    constant = helper.make_node("Identity", ["scales0"], ["same"])
    model.graph.node.insert(0, constant)
    model.graph.node[1].input[2] = "same"
    standard = lower(model)
    assert not standard.graph.initializer
    assert [node.op_type for node in standard.graph.node] == ["Constant", "Resize"]
    assert run_plain(standard, {"X0": x})[0].shape == (1, 1, 8, 8)


def test_lowering_converts_to_another_opset() -> None:
    call = Call(np.zeros((1, 1, 4, 4), np.float32), scales=SCALE_2, attributes={"mode": "linear"})
    standard = lower(resize_model(call, 17)[0], opset=13)
    assert [(item.domain, item.version) for item in standard.opset_import] == [("", 13)]
    model = resize_model(call, 18)[0]
    model.graph.node.append(helper.make_node("Split", ["X0"], ["l", "r"], num_outputs=2, axis=3))
    with pytest.raises(
        LoweringError, match=r"from ai.onnx opset 18 to 13.*Split.*opset_version=13"
    ):
        lower(model, opset=13)
    for opset, text in (
        (
            10,
            r"18 to 10: onnx converts no Split of opset 18 to an earlier one\. Where .*torchscript",
        ),
        (5, r"18 to 5: onnx converts .* no opset before 7 either: keep the model's own"),
    ):
        with pytest.raises(LoweringError, match=text) as caught:
            lower(model, opset=opset)
        assert "Assertion" not in str(caught.value)
    with pytest.raises(ValueError, match="lower: opset: got 99, expected an integer from 1 to "):
        lower(model, opset=99)
    model.graph.node[-1].CopyFrom(helper.make_node("Mish", ["X0"], ["l"]))
    with pytest.raises(LoweringError, match=r"18 to 13: earlier opsets have no Mish\."):
        lower(model, opset=13)


def test_refusals_name_node_opset_reason_and_remedy() -> None:
    x = np.zeros((1, 1, 4, 4), np.float32)
    model = resize_model(Call(x, scales=SCALE_2), 8)[0]
    with pytest.raises(LoweringError, match=r"node 'resize0' \(myops::Resize\): cannot be written "
                       r"in ai.onnx opset 8: there is no Resize.*Use opset 11"):  # fmt: skip
        lower(model)
    model = resize_model(Call(x, scales=np.float32([2, 2]), attributes={"axes": [2, 3]}), 13)[0]
    for item in (*model.graph.input, *model.graph.output):
        item.type.tensor_type.ClearField("shape")
    with pytest.raises(LoweringError, match=r"opset 13: the rank of X, .* Use opset 19 or up"):
        lower(model)
    assert isinstance(LoweringError("text"), ValueError)


def test_an_op_without_a_standard_form_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _libraries.OURS.standard_form(_description.OPS["my_add"])
    monkeypatch.setitem(_libraries.OURS._standards, "my_add", None)
    info = helper.make_tensor_value_info
    node = helper.make_node("MyAdd", ["X", "X"], ["Y"], "sum", domain="myops")
    with pytest.raises(LoweringError, match=r"node 'sum' .* the op my_add has no standard form"):
        lower(model_of([node], [info("X", 1, [2])], [info("Y", 1, [2])]))


def test_models_without_our_nodes_stay_unchanged() -> None:
    info = helper.make_tensor_value_info
    relu = helper.make_node("Relu", ["X"], ["Y"])
    model = model_of([relu], [info("X", 1, [2])], [info("Y", 1, [2])])
    del model.opset_import[1]
    assert lower(model) == model
    assert myops.onnx.add_function_bodies(model) == model
