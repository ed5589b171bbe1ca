"""Any shapes, strides, dtypes and attributes: each op against something that we did not write, and
against itself with its inputs in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from layouts import FLOATS, TOLERANCES, arrays, plain, seeds, wide
from onnx.reference import ReferenceEvaluator
from reference_deform_conv2d import deform_conv2d as reference_deform
from runtimes import (
    assert_equal_bits,
    feeds,
    node_model,
    random_array,
    run_numpy,
    run_ort,
    to_torch,
)

import myops


def assert_layouts_agree(name: str, inputs: list[Any], attributes: dict[str, Any]) -> np.ndarray:
    """The result, which has equal bits with the inputs in order, in NumPy and ONNX Runtime."""
    (result,) = run_numpy(name, inputs, attributes)
    ordered = [plain(item) for item in inputs]
    for run in (run_numpy, run_ort):
        assert_equal_bits(plain(result), run(name, ordered, attributes)[0])
    return result


# ---- my_add.


@st.composite
def additions(draw: Any) -> list[np.ndarray]:
    whole = draw(st.lists(st.integers(0, 5), max_size=5))
    dtype = draw(st.sampled_from(myops._description.OPS["my_add"].types["T"]))
    operands = []
    for _ in range(2):
        start = draw(st.integers(0, len(whole)))
        shape = [draw(st.sampled_from([1, length, length])) for length in whole[start:]]
        operands.append(draw(arrays(shape, dtype)))
    return operands


@given(additions())
def test_my_add(operands: list[np.ndarray]) -> None:
    a, b = operands
    result = assert_layouts_agree("my_add", operands, {})
    if a.dtype.kind in "iu":
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(result, a * a.dtype.type(2) + b)
    else:
        limit = TOLERANCES[str(a.dtype)]
        np.testing.assert_allclose(wide(result), 2 * wide(a) + wide(b), rtol=limit, atol=limit)


# ---- Resize against torch, by way of myops.interpolate.

MODES = {1: ("nearest", "nearest-exact", "linear"),
         2: ("nearest", "nearest-exact", "bilinear", "bicubic"),
         3: ("nearest", "nearest-exact", "trilinear")}  # fmt: skip


@st.composite
def enlargements(draw: Any) -> tuple[torch.Tensor, dict[str, Any]]:
    axes = draw(st.integers(1, 3))
    lengths = draw(st.lists(st.integers(1, 9), min_size=axes, max_size=axes))
    dtype = draw(st.sampled_from(["float32", "float64"]))
    x = draw(arrays([draw(st.integers(1, 2)), draw(st.integers(1, 3)), *lengths], dtype))
    mode = draw(st.sampled_from(MODES[axes]))
    options: dict[str, Any] = {"mode": mode}
    if not mode.startswith("nearest"):
        options["align_corners"] = draw(st.booleans())
    if mode in ("bilinear", "bicubic") and not options["align_corners"]:
        options["antialias"] = draw(st.booleans())
    if draw(st.booleans()):
        options["size"] = [draw(st.integers(1, 15)) for _ in lengths]
    else:
        smallest = [1.01 / length for length in lengths]
        options["scale_factor"] = [draw(st.floats(max(low, 0.2), 3.5)) for low in smallest]
    backwards = any(stride < 0 for stride in x.strides)  # which torch does not have
    return torch.from_numpy(x.copy() if backwards else x), options


@given(enlargements())
def test_interpolate(case: tuple[torch.Tensor, dict[str, Any]]) -> None:
    x, options = case
    result = myops.interpolate(x, **options)
    wanted = torch.nn.functional.interpolate(x, **options)
    assert result.shape == wanted.shape
    if options["mode"].startswith("nearest"):
        assert torch.equal(result, wanted)
        return
    # Coordinates are float32 in both for float32 data; where the two round apart, so does this.
    limit = 2e-5 if x.dtype == torch.float32 else 1e-11
    torch.testing.assert_close(result, wanted, rtol=limit, atol=limit)


# ---- Resize against the ONNX reference.


@st.composite
def resizes(draw: Any) -> tuple[list[Any], dict[str, Any]]:
    shape = draw(st.lists(st.integers(1, 8), min_size=1, max_size=4))
    axes = draw(st.permutations(range(len(shape))))[: draw(st.integers(1, len(shape)))]
    dtype = draw(st.sampled_from(FLOATS))
    attributes = {
        "axes": list(axes),
        "mode": draw(st.sampled_from(["linear", "cubic"])),
        "coordinate_transformation_mode": draw(
            st.sampled_from(["half_pixel", "asymmetric", "align_corners", "half_pixel_symmetric"])
        ),
    }
    if attributes["mode"] == "cubic":
        attributes["cubic_coeff_a"] = draw(st.sampled_from([-0.5, -0.75]))
        attributes["exclude_outside"] = draw(st.booleans())
    # Lengths, not scales: there the reference takes fractional lengths (tests/ops/test_resize.py).
    sizes = np.array([draw(st.integers(1, 15)) for _ in axes], np.int64)
    return [draw(arrays(shape, dtype)), None, None, sizes], attributes


@given(resizes())
def test_resize(case: tuple[list[Any], dict[str, Any]]) -> None:
    inputs, attributes = case
    result = assert_layouts_agree("resize", inputs, attributes)
    exact = [wide(inputs[0]), *inputs[1:]]
    model = node_model("resize", exact, attributes)
    model.graph.node[0].domain = ""
    (wanted,) = ReferenceEvaluator(model).run(None, feeds("resize", exact))
    limit = TOLERANCES[str(inputs[0].dtype)]
    np.testing.assert_allclose(wide(result), wanted, rtol=limit, atol=4 * limit)


# ---- DeformConv.

small = st.integers(1, 3)


@st.composite
def deformations(draw: Any, dtypes: tuple[str, ...] = FLOATS) -> tuple[list[Any], dict[str, Any]]:
    group, fields = draw(small), draw(st.integers(1, 2))
    batch, channels = draw(st.integers(0, 3)), group * fields * draw(small)
    outputs = group * draw(st.integers(1, 6))
    kernel, stride, dilation = ([draw(small), draw(small)] for _ in range(3))
    pads = draw(st.lists(st.integers(0, 2), min_size=4, max_size=4))
    size, out = [], []
    for axis in (0, 1):
        extent = (kernel[axis] - 1) * dilation[axis] + 1
        least = max(1, extent - pads[axis] - pads[axis + 2])
        size.append(draw(st.integers(least, least + 9)))
        out.append((size[axis] + pads[axis] + pads[axis + 2] - extent) // stride[axis] + 1)
    taps = fields * kernel[0] * kernel[1]
    dtype = draw(st.sampled_from(dtypes))
    x = draw(arrays([batch, channels, *size], dtype))
    weight = draw(arrays([outputs, channels // group, *kernel], dtype))
    offset = draw(arrays([batch, 2 * taps, *out], dtype))
    bias = draw(arrays([outputs], dtype)) if draw(st.booleans()) else None
    mask = draw(arrays([batch, taps, *out], dtype)) if draw(st.booleans()) else None
    attributes = {"strides": stride, "pads": pads, "dilations": dilation, "group": group,
                  "offset_group": fields}  # fmt: skip
    return [x, weight, offset, bias, mask], attributes


def reference(tensors: list[Any], attributes: dict[str, Any]) -> torch.Tensor:
    x, weight, offset, bias, mask = tensors
    return reference_deform(
        x, weight, offset, bias, mask, tuple(attributes["strides"]), tuple(attributes["pads"]),
        tuple(attributes["dilations"]), attributes["group"], attributes["offset_group"],
    )  # fmt: skip


@given(deformations())
def test_deform_conv2d(case: tuple[list[Any], dict[str, Any]]) -> None:
    inputs, attributes = case
    result = assert_layouts_agree("deform_conv2d", inputs, attributes)
    exact = [None if item is None else torch.from_numpy(wide(item).copy()) for item in inputs]
    wanted = reference(exact, attributes).numpy()
    # Sums of up to 162 products; positions near an integer or the edge are continuous too.
    limit = 20 * TOLERANCES[str(inputs[0].dtype)]
    np.testing.assert_allclose(wide(result), wanted, rtol=limit, atol=limit)


@given(deformations(("float64",)), seeds)
def test_gradients_of_deform_conv2d(case: tuple[list[Any], dict[str, Any]], seed: int) -> None:
    inputs, attributes = case
    # The gradient jumps where a position is an integer: keep away from there.
    offset = inputs[2]
    offset[...] = np.where(np.abs(offset - np.round(offset)) < 0.02, offset + 0.05, offset)
    leaves = [None if item is None else to_torch(item).requires_grad_() for item in inputs]
    given_ones = [leaf for leaf in leaves if leaf is not None]
    wanted = reference(leaves, attributes)
    grad = to_torch(random_array(np.random.default_rng(seed), tuple(wanted.shape), "float64"))
    expected = torch.autograd.grad(wanted, given_ones, grad)
    x, weight, offset, _, mask = leaves
    pads = attributes["pads"]
    ours = torch.ops.myops.deform_conv2d_backward(
        grad, x.detach(), weight.detach(), offset.detach(),
        None if mask is None else mask.detach(), dilations=attributes["dilations"],
        group=attributes["group"], offset_group=attributes["offset_group"], pads=pads,
        strides=attributes["strides"],
    )  # fmt: skip
    named = dict(zip(["x", "weight", "offset", "mask"], ours, strict=True))
    named["bias"] = grad.sum((0, 2, 3))
    keys = ["x", "weight", "offset", "bias", "mask"]
    present = [key for key, leaf in zip(keys, leaves, strict=True) if leaf is not None]
    for key, one in zip(present, expected, strict=True):
        torch.testing.assert_close(named[key], one, rtol=1e-9, atol=1e-9, msg=key)
