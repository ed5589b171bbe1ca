"""`to_half`: coordinates, sizes and indices stay float32, also if other types are between them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from onnx import TensorProto
from precision_models import HALVES, INT64, by_name, check, model, node, run, value, weight

import myops
import myops.onnx


def test_scales_sizes_and_grids_stay_float32() -> None:
    """Computed scales, a grid from a computed shift, boxes."""
    weights = [weight("one", np.float32([1, 1])), weight("k", np.float32([0.9]))]
    nodes = [
        node("Mul", "factor one", "scaled"), node("Concat", "one scaled", "scales", axis=0),
        node("Resize", "x - scales", "u", "myops", mode="linear"),
        node("Resize", "u - scales", "v", mode="linear"),
        node("Mul", "shift k", "grid"), node("GridSample", "v grid", "g"),
        node("RoiAlign", "g boxes index", "y"),
    ]  # fmt: skip
    inputs = [value("x", [1, 2, 6, 6]), value("factor", [2]), value("shift", [1, 5, 5, 2]),
              value("boxes", [1, 4]), value("index", [1], INT64)]  # fmt: skip
    source = model(nodes, inputs, [value("y")], weights)
    random = np.random.default_rng(0)
    feed = {"x": random.random((1, 2, 6, 6), np.float32), "factor": np.float32([1.5, 2.5]),
            "shift": random.random((1, 5, 5, 2), np.float32), "boxes": np.float32([[0, 0, 3, 3]]),
            "index": np.int64([0])}  # fmt: skip
    result = myops.onnx.to_half(source, runtime="any", data=[feed])
    check(source, result)
    found = by_name(result)
    for name in ("Mul_scaled", "Concat_scales", "Mul_grid"):
        assert found[name].kind == "coordinates", found[name]
    assert found["RoiAlign_y"].reason == "the boxes would be float16 too"
    for name in ("Resize_u", "Resize_v", "GridSample_g"):
        assert found[name].precision == "float16"
    kinds = {i.name: i.type.tensor_type.elem_type for i in result.model.graph.input}
    assert kinds == {"x": TensorProto.FLOAT16, "factor": TensorProto.FLOAT, "index": INT64,
                     "shift": TensorProto.FLOAT, "boxes": TensorProto.FLOAT}  # fmt: skip
    assert "stay float32" in " ".join(result.notes)
    assert result.losses["y"] < 1e-3


def test_indices_computed_in_float_stay_float32() -> None:
    """Positions of 3001 rows: float16 cannot represent 3001."""
    weights = [weight("half", np.float32([0.5])), weight("table", np.arange(1600, dtype="f4"))]
    nodes = [
        node("Shape", "x", "s"), node("Gather", "s first", "n"),
        node("Range", "nought n step", "r"), node("Cast", "r", "f", to=1),
        node("Mul", "f half", "h"), node("Floor", "h", "w"),
        node("Cast", "w", "i", to=7), node("Gather", "table i", "t"), node("Add", "x t", "y"),
    ]  # fmt: skip
    weights += [weight("first", np.int64(0)), weight("nought", np.int64(0)),
                weight("step", np.int64(1))]  # fmt: skip
    source = model(nodes, [value("x", ["n"])], [value("y"), value("i", None, INT64)], weights)
    feed = {"x": np.zeros(3001, np.float32)}
    result = myops.onnx.to_half(source, runtime="any", data=[feed])
    check(source, result)
    assert result.losses["i"] == 0
    assert {by_name(result)[name].precision for name in ("Mul_h", "Floor_w")} == {"float32"}
    expected = run(source, feed)
    got = run(result.model, {"x": feed["x"].astype(np.float16)})
    np.testing.assert_array_equal(got[1], expected[1])


class Enlarge(torch.nn.Module):
    """The factor of the caller is multiplied and passed on in float64, as `interpolate` does."""

    def forward(self, x: Any, factor: Any) -> Any:
        scales = torch.cat([torch.ones(2), factor * 1.1]).double()
        return myops.NewInterpolate.apply(x * 0.5, scales)


@pytest.mark.parametrize("runtime", ["cpu", "any"])
@pytest.mark.parametrize("dtype", list(HALVES))
def test_scales_in_float64_are_computed_in_float32(dtype: str, runtime: str) -> None:
    """In float16, 2.0 * 1.1 is another factor, and 100 rows would become 219 instead of 220."""
    x, factor = torch.rand(1, 1, 100, 40), torch.tensor([2.0, 1.0])
    source = myops.onnx.export(
        Enlarge(), (x, factor), input_names=["x", "factor"], output_names=["y"],
        dynamic_axes={"x": {2: "h", 3: "w"}}, exporter="torchscript",
    )  # fmt: skip
    feed = {"x": x.numpy(), "factor": factor.numpy()}
    result = myops.onnx.to_half(source, dtype=dtype, runtime=runtime, data=[feed])
    check(source, result)
    kinds = {item.name: item.type.tensor_type.elem_type for item in result.model.graph.input}
    assert kinds["factor"] == TensorProto.FLOAT
    assert result.losses["y"] < {"float16": 1e-3, "bfloat16": 1e-2}[dtype]
    if dtype == "float16":
        given = feed["x"].astype(np.float16 if kinds["x"] == HALVES[dtype] else np.float32)
        (got,) = run(result.model, {"x": given, "factor": feed["factor"]})
        assert got.shape == (1, 1, 220, 44)


@pytest.mark.parametrize("target", [TensorProto.DOUBLE, TensorProto.INT32, TensorProto.BOOL])
def test_a_cast_to_another_type_keeps_its_type(target: int) -> None:
    nodes = [node("Tanh", "x", "t"), node("Cast", "t", "y", to=target)]
    source = model(nodes, [value("x", [5])], [value("y", [5], target)])
    x = np.float32([-2, -0.4, 0, 0.7, 3])
    for runtime in ("cpu", "any"):
        result = myops.onnx.to_half(source, runtime=runtime, data=[{"x": x}])
        check(source, result)
        (cast,) = (item for item in result.model.graph.node if item.output[0] == "y")
        assert cast.attribute[0].i == target
