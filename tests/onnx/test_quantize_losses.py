"""`quantize`: what is lost at the outputs, and which nodes stay float because of it."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto
from precision_models import by_name, check, model, network, node, value, weight

import myops
import myops.onnx
import myops.ort

RANDOM = np.random.default_rng(3)
DATA = [{"x": RANDOM.standard_normal((1, 3, 12, 10)).astype(np.float32)} for _ in range(4)]


def test_max_loss_is_kept() -> None:
    data, source = DATA, network(channels=16)
    free = myops.onnx.quantize(source, data=data, reduce_range=False)
    bound = 0.8 * free.losses["y"]
    held = myops.onnx.quantize(source, data=data, reduce_range=False, max_loss=bound)
    assert held.holds
    assert 0 <= held.losses["y"] <= bound < free.losses["y"]
    back = [item for item in held.nodes if item.kind == "bound"]
    assert back
    # No more nodes than when nodes are restored in the order of their own loss.
    for count in range(1, len(back)):
        fewer = [item.name.split("'")[1] for item in free.worst[:count]]
        tried = myops.onnx.quantize(source, data=data, reduce_range=False, keep=fewer)
        assert tried.losses["y"] > bound
    decibels = myops.onnx.quantize(source, data=data, metric="sqnr", max_loss=10)
    assert decibels.holds
    assert 10 < decibels.to_dict()["losses"]["y"] < 60


def test_max_loss_counts_the_loss_at_the_outputs() -> None:
    """A layer with a small loss that a later difference amplifies returns to float; a layer with a
    large loss of which little reaches the output stays on integers."""
    random = np.random.default_rng(0)
    first = np.repeat(random.standard_normal((1, 3, 3, 3)), 2, 0).astype(np.float32)
    first[1] *= 1.02
    uneven = random.standard_normal((4, 3, 3, 3)).astype(np.float32)
    uneven[:3] *= 1e-2  # one channel determines the range of all
    weights = [weight("W1", first), weight("W2", np.float32([[[[50]], [[-50]]]])),
               weight("W3", uneven), weight("few", np.float32(1e-2))]  # fmt: skip
    nodes = [
        node("Conv", "x W1", "c1", pads=[1] * 4), node("Conv", "c1 W2", "c2"),
        node("Conv", "x W3", "c3", pads=[1] * 4), node("Relu", "c3", "r3"),
        node("ReduceMean", "r3 channels", "m3"), node("Mul", "m3 few", "s3"),
        node("Add", "c2 s3", "y"),
    ]  # fmt: skip
    weights.append(weight("channels", np.int64([1])))
    source = model(nodes, [value("x", [1, 3, "h", "w"])], [value("y")], weights)
    free = myops.onnx.quantize(source, data=DATA)
    alone = {item.name.split("'")[1]: item.loss for item in free.worst}
    assert free.losses["y"] > 0.1 > alone["Conv_c1"]  # type: ignore[operator]
    held = myops.onnx.quantize(source, data=DATA, max_loss=0.02)
    assert held.holds
    found = by_name(held)
    assert found["Conv_c1"].kind == "bound"
    assert "as the only one on integers it costs" in found["Conv_c1"].reason
    assert found["Conv_c3"].precision == "int8"


def test_a_max_loss_that_only_float32_meets() -> None:
    """Layers that could not be measured alone return to float too: the model is the original
    one."""
    source = network()
    result = myops.onnx.quantize(source, data=DATA, max_loss=1e-9)
    assert {item.precision for item in result.nodes} == {"float32"}
    assert result.holds
    assert "No node became int8; see the reasons." in result.notes
    assert not result.converted
    kinds = {item.op_type for item in result.model.graph.node}
    assert not kinds & {"QuantizeLinear", "DequantizeLinear"}


def test_kept_nodes_stay_float() -> None:
    result = myops.onnx.quantize(network(), data=DATA, keep=["Conv_c1", "myops::Resize"])
    found = by_name(result)
    assert found["Conv_c1"].kind == found["Resize_u"].kind == "kept"
    assert found["Conv_c2"].precision == "int8"
    kinds = {t.name: t.data_type for t in result.model.graph.initializer}
    assert kinds["W1"] == TensorProto.FLOAT


def test_losses_are_measured_on_the_check_inputs() -> None:
    loud = [{"x": 30 * DATA[0]["x"]}]
    usual = myops.onnx.quantize(network(), data=DATA)
    outside = myops.onnx.quantize(network(), data=DATA, check=loud)
    assert outside.losses["y"] > 3 * usual.losses["y"]  # beyond the ranges
    assert (outside.calibrated, outside.runs) == (4, 1)
    assert myops.onnx.quantize(network(), data=DATA, most=2).calibrated == 2


def test_losses_beside_fill_values_are_counted() -> None:
    """One integer scale for -1e9 and for scores loses the scores."""
    mask = np.tri(12, 10, dtype=bool)
    nodes = [node("Conv", "x W", "s"), node("Where", "mask s fill", "y"),
             node("Softmax", "y", "p")]  # fmt: skip
    weights = [weight("W", (RANDOM.standard_normal((3, 3, 1, 1)) / 2).astype(np.float32)),
               weight("mask", mask), weight("fill", np.float32(-1e9))]  # fmt: skip
    source = model(nodes, [value("x", [1, 3, 12, 10])], [value("y"), value("p")], weights)
    lost = myops.onnx.quantize(source, data=DATA)
    assert lost.losses["y"] > 0.5
    held = myops.onnx.quantize(source, data=DATA, max_loss=0.05)
    assert held.holds
    assert held.losses["y"] < 0.05
    check(source, held)


@pytest.mark.parametrize("fill", [-np.inf, np.nan])
@pytest.mark.parametrize("method", ["minmax", "entropy", "percentile"])
def test_values_without_a_range_stay_float(method: str, fill: float) -> None:
    """Scores with a mask of -inf, as in causal attention."""
    mask = np.tri(12, 10, dtype=bool)
    nodes = [node("Conv", "x W", "s"), node("Where", "mask s fill", "m"),
             node("Max" if np.isnan(fill) else "Softmax", "m", "p"),
             node("Where", "mask p zero", "k"), node("Conv", "k V", "y")]  # fmt: skip
    weights = [weight("W", RANDOM.standard_normal((3, 3, 1, 1)).astype(np.float32)),
               weight("V", RANDOM.standard_normal((2, 3, 3, 3)).astype(np.float32)),
               weight("mask", mask), weight("fill", np.float32(fill)),
               weight("zero", np.float32(0))]  # fmt: skip
    source = model(nodes, [value("x", [1, 3, 12, 10])], [value("y")], weights)
    result = myops.onnx.quantize(source, data=DATA, method=method)
    assert result.losses["y"] < (0.5 if method == "entropy" else 0.05)
    found = by_name(result)
    if np.isinf(fill):  # ONNX Runtime's minimum ignores NaN
        assert found["Where_m"].kind == "range"
    assert found["Conv_y"].precision == "int8"
    result.print()
    check(source, result)
