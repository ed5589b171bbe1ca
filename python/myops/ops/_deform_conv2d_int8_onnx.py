"""deform_conv2d_int8 in standard ONNX operators: the same integers, so the same bits.

Opset 11 and later. Four Gathers sample, a MatMul of int32 sums; the whole column matrix is in
memory: C * kH * kW * oH * oW integers an image, the Gathers six times that.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from myops.onnx.arrays import Array, constant, where
from myops.ops._deform_conv2d_onnx import Decomposition


def standard(g: Any) -> list[str]:
    """Writes one node; the arithmetic is that of csrc/ops/deform_conv2d_int8/blocking.h."""
    if g.opset < 11:
        g.refuse("the positions need operators of opset 11", "Use opset 11 or up.")
    kind = np.dtype(g.dtype("X"))
    image = Array(g, np.int32, name=g.op("Cast", g.input("X"), to=TensorProto.INT32))
    low: Array = constant(g, np.iinfo(kind).min, np.int32)  # the least integer of a sample
    if g.input("X_zero_point"):
        zero = Array(g, np.int32, name=g.op("Cast", g.input("X_zero_point"), to=TensorProto.INT32))
        zero = zero.reshape([1])
        image, low = image - zero, low - zero
    inputs = [(image * 128).name, *[g.input(name) for name in ("W", "offset", "B", "mask")]]
    form = Decomposition(g, inputs, np.dtype(np.float32))
    limit = np.float32(g.attribute("mask_limit"))
    mask = _mask(g, form, limit)
    total: Array | None = None
    for values, part in form.corners(form.X, np.int32):
        fraction = Array(g, np.float32, name=g.op("Round", (part * mask).name))
        fraction = fraction.at_most(32767).at_least(-32767).cast(np.int32)
        term = _divided(g, values * fraction + 16384, 32768, 32768)
        total = term if total is None else total + term
    assert total is not None
    samples = _divided(g, total + 64, 128, 512)
    samples = samples.at_least(low).at_most(low + 255)
    weights = g.op("Cast", form.W, to=TensorProto.INT32)
    sums = g.op("Cast", form.sums(form.columns(samples), weights), to=TensorProto.FLOAT)
    scale = Array(g, np.float32, name=g.input("X_scale")).reshape([1, 1, 1]) * limit
    scale = scale * Array(g, np.float32, name=g.input("W_scale")).reshape([-1, 1, 1])
    result = g.op("Mul", sums, scale.name)
    if not form.bias:
        return [result]
    one = constant(g, [1], np.int64)
    return [g.op("Add", result, form.reshape(form.bias, form.outputs, one, one))]


def _mask(g: Any, form: Decomposition, limit: np.float32) -> Array:
    """The mask of each sample as a multiple of 1 / 32768; NaN is 0."""
    inverse = np.float32(1) / limit
    if not form.mask:
        return constant(g, np.clip(inverse, -1, 1) * np.float32(32768), np.float32)
    mask = form.by_sample(form.mask) * inverse
    nothing = Array(g, np.bool_, name=g.op("IsNaN", mask.name))
    mask = where(nothing, constant(g, 0, np.float32), mask)
    return mask.at_most(1).at_least(-1) * 32768


def _divided(g: Any, value: Array, divisor: int, offset: int) -> Array:
    """floor(value / divisor), as Div cuts towards 0; value >= -offset * divisor."""
    positive = value + offset * divisor
    cut = g.op("Div", positive.name, constant(g, divisor, np.int32).name)
    return Array(g, np.int32, name=cut) - offset
