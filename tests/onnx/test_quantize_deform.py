"""`quantize` replaces a node by the integer op that its op declares: for our op, and for an op of
another package."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from precision_models import by_name, check, model, node, run, value, weight

import myops
import myops.onnx
from myops.onnx.precision import int8
from myops.onnx.precision.integer_ops import declared
from myops.onnx.precision.losses import relative_l2

RANDOM = np.random.default_rng(11)
# Without VNNI, sums in ONNX Runtime's own convolutions saturate where weights have 8 bits, not 7.
SATURATES = not int8._has_vnni()
DATA = [{"x": RANDOM.standard_normal((1, 3, 12, 10)).astype(np.float32)} for _ in range(4)]


def normal(*shape: int) -> np.ndarray:
    fan = np.prod(shape[1:]) if len(shape) > 1 else 50.0
    return (RANDOM.standard_normal(shape) / np.sqrt(fan)).astype(np.float32)


def network(channels: int = 8, group: int = 1, opset: int = 20) -> onnx.ModelProto:
    """A deformable convolution, version 2, between two convolutions; its mask is twice a
    sigmoid."""
    weights = [
        weight("W1", normal(channels, 3, 3, 3)), weight("b1", normal(channels)),
        weight("Wo", normal(18, 3, 3, 3)), weight("Wm", normal(9, 3, 3, 3)),
        weight("W2", normal(channels, channels // group, 3, 3)), weight("b2", normal(channels)),
        weight("W3", normal(3, channels, 3, 3)), weight("two", np.float32(2)),
    ]  # fmt: skip
    nodes = [
        node("Conv", "x W1 b1", "c", pads=[1] * 4), node("Relu", "c", "r"),
        node("Conv", "x Wo", "offset", pads=[1] * 4), node("Conv", "x Wm", "m", pads=[1] * 4),
        node("Sigmoid", "m", "s"), node("Mul", "s two", "mask"),
        node("DeformConv", "r W2 offset b2 mask", "d", "myops", pads=[1] * 4, group=group),
        node("Relu", "d", "e"), node("Conv", "e W3", "y", pads=[1] * 4),
    ]  # fmt: skip
    return model(nodes, [value("x", [1, 3, "h", "w"])], [value("y")], weights, opset=opset)


def replaced(made: onnx.ModelProto) -> list[onnx.NodeProto]:
    return [item for item in made.graph.node if item.op_type == "DeformConvIntegerToFloat"]


@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize("activations", ["uint8", "int8"])
def test_deform_conv2d_runs_on_integers(activations: str, per_channel: bool) -> None:
    source = network()
    result = myops.onnx.quantize(
        source, data=DATA, activations=activations, per_channel=per_channel, reduce_range=SATURATES
    )
    check(source, result)
    assert by_name(result)["DeformConv_d"].precision == "int8"
    (made,) = replaced(result.model)
    makers = {name: item.op_type for item in result.model.graph.node for name in item.output}
    assert makers[made.input[0]] == "QuantizeLinear"
    weights = {item.name: item for item in result.model.graph.initializer}
    assert weights[made.input[3]].data_type == TensorProto.INT8
    assert numpy_helper.to_array(weights[made.input[4]]).size == (8 if per_channel else 1)
    assert [name.partition("_")[0] for name in made.input[5:]] == ["offset", "b2", "mask"]
    settings = {item.name: helper.get_attribute_value(item) for item in made.attribute}
    wide = model(source.graph.node, [value("x", [1, 3, "h", "w"])], [value("mask")],
                 source.graph.initializer)  # fmt: skip
    most = max(run(wide, feed)[0].max() for feed in DATA)
    assert settings["mask_limit"] == pytest.approx(most)
    assert 1.2 < most < 2
    assert settings["pads"] == [1] * 4
    assert 1e-4 < result.losses["y"] < 0.1
    # No node reads the float weights or dequantizes the new ones.
    assert "W2" not in weights
    assert weights.keys() <= {name for item in result.model.graph.node for name in item.input}
    assert not any(made.input[3] in item.input for item in result.model.graph.node
                   if item.op_type == "DequantizeLinear")  # fmt: skip


def test_the_integer_op_adds_little_loss() -> None:
    """The loss of the integer node is small compared with the rounding of its input and weights."""
    source = network()
    with_it = myops.onnx.quantize(source, data=DATA, reduce_range=False)
    without = myops.onnx.quantize(source, data=DATA, reduce_range=False, keep=["DeformConv_d"])
    assert not replaced(without.model)
    assert by_name(without)["DeformConv_d"].kind == "kept"
    assert with_it.losses["y"] < 1.5 * without.losses["y"] + 0.01


def test_bodies_run_without_the_library() -> None:
    source = myops.onnx.add_function_bodies(network())
    result = myops.onnx.quantize(source, data=DATA, reduce_range=False)
    (made,) = replaced(result.model)
    assert made.op_type in {item.name for item in result.model.functions}
    alone = onnxruntime.InferenceSession(result.model.SerializeToString())
    (got,) = alone.run(None, DATA[0])
    assert relative_l2(run(result.model, DATA[0])[0], got) < 0.02


def test_max_loss_restores_the_float_op() -> None:
    source = network()
    result = myops.onnx.quantize(source, data=DATA, max_loss=1e-9)
    assert result.holds
    assert not replaced(result.model)
    assert by_name(result)["DeformConv_d"].kind == "bound"


def test_deform_conv2d_that_cannot_be_quantized_stays_float() -> None:
    found = by_name(myops.onnx.quantize(network(group=2), data=DATA))["DeformConv_d"]
    assert (found.precision, found.kind) == ("float32", "custom")
    assert "needs the numbers themselves" in found.reason
    source = network()
    source.graph.node.insert(0, node("Neg", "W2", "computed"))
    next(item for item in source.graph.node if item.op_type == "DeformConv").input[1] = "computed"
    result = myops.onnx.quantize(source, data=DATA)
    assert by_name(result)["DeformConv_d"].reason == "its W is no constant in float32"
    assert not replaced(result.model)


# ---- An op of another package.


def weighted(x: np.ndarray, w: np.ndarray, y: np.ndarray, *, gain: float) -> np.ndarray:
    """x @ w, times gain, plus y."""
    return (x @ w) * np.float32(gain) + y


def weighted_int8(
    x: np.ndarray, x_scale: np.ndarray, x_zero_point: np.ndarray, w: np.ndarray,
    w_scale: np.ndarray, y: np.ndarray, *, gain: float, most: float,
) -> np.ndarray:  # fmt: skip
    """The same on integers; y is clipped to +-most."""
    sums = (x.astype(np.int32) - x_zero_point) @ w.astype(np.int32)
    return sums * (x_scale * w_scale * np.float32(gain)) + np.clip(y, -most, most)


def same_shape(inputs: Any, attributes: Any) -> list[Any]:
    return [[*inputs[0].shape[:-1], inputs[-1].shape[-1]]]


def other_package(domain: str, form: Any) -> onnx.ModelProto:
    """Two ops of another package, and a model with the first."""
    Input, Output, Attribute = myops.Input, myops.Output, myops.Attribute
    result = [Output("z", "T", "The sum.")]
    gain = Attribute("gain", 1.0, "A factor.")
    myops.prototype(
        weighted_int8, domain=domain, types={"T": ["float32"], "X": ["uint8"], "W": ["int8"]},
        inputs=[Input("x", "X", "A matrix."), Input("x_scale", "T", "Its scale."),
                Input("x_zero_point", "X", "Its zero point."), Input("w", "W", "Weights."),
                Input("w_scale", "T", "Of each column."), Input("y", "T", "Added.")],
        outputs=result, attributes=[gain, Attribute("most", 1.0, "Of y.")], shape=same_shape,
    )  # fmt: skip
    myops.prototype(
        weighted, domain=domain, types={"T": ["float32"]},
        inputs=[Input("x", "T", "A matrix."), Input("w", "T", "Weights."),
                Input("y", "T", "Added.")],
        outputs=result, attributes=[gain], shape=same_shape, quantized=lambda attributes: form,
    )  # fmt: skip
    nodes = [node("MatMul", "x A", "a"), node("Weighted", "a B a", "y", domain, gain=0.5)]
    weights = [weight("A", normal(10, 10)), weight("B", normal(10, 10))]
    made = model(nodes, [value("x", [1, 3, 12, 10])], [value("y")], weights)
    made.opset_import.append(helper.make_opsetid(domain, 1))
    return made


def test_an_op_of_another_package_is_quantized() -> None:
    form = myops.IntegerOp("weighted_int8", ["x"], {"w": 1}, limits={"most": "y"})
    source = other_package("quantize_form", form)
    result = myops.onnx.quantize(source, data=DATA, reduce_range=SATURATES)
    check(source, result)
    (made,) = [item for item in result.model.graph.node if item.op_type == "WeightedInt8"]
    settings = {item.name: helper.get_attribute_value(item) for item in made.attribute}
    assert settings["gain"] == 0.5
    most = max(np.abs(feed["x"] @ numpy_helper.to_array(source.graph.initializer[0])).max()
               for feed in DATA)  # fmt: skip
    assert settings["most"] == pytest.approx(most, rel=1e-5)
    assert 1e-4 < result.losses["y"] < 0.03
    int8 = myops.onnx.quantize(source, data=DATA, activations="int8")
    assert by_name(int8)["Weighted_y"].reason == "weighted_int8 takes no int8"


@pytest.mark.parametrize(("form", "text"), [
    (myops.IntegerOp("weighted_int8", ["x"], {"w": 1}, {"most": "v"}), "v"),
    (myops.IntegerOp("weighted_int8", ["x"], {"w": 1}, {"least": "y"}), "least"),
    (myops.IntegerOp("weighted_int8", ["x"]), "w_scale"),
    (myops.IntegerOp("weighted_int8", ["x", "y"], {"w": 1}), "y_scale"),
    (myops.IntegerOp("weighted_int4", ["x"], {"w": 1}), "weighted_int4"),
])  # fmt: skip
def test_a_wrong_declaration_is_refused(form: myops.IntegerOp, text: str) -> None:
    domain = f"quantize_wrong_{abs(hash(repr(form)))}"
    source = other_package(domain, form)
    with pytest.raises(ValueError, match=text):
        declared(source.graph.node[1], "uint8")
