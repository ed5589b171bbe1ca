"""adjust and every: attributes of every kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from torch import Tensor

import myops

library = myops.op_library("author_ops")


def _standard(g: Any) -> list[str]:
    value = g.op("Cast", g.input("x"), to=11)

    def number(item: float) -> str:
        return g.constant(np.float64(item))

    for step in g.attribute("steps"):
        if step == "scale":
            value = g.op("Mul", value, number(g.attribute("factor")))
        if step == "negate":
            value = g.op("Neg", value)
        for shift in (g.attribute("shifts") or []) if step == "shift" else []:
            value = g.op("Add", value, number(shift))
    power = g.attribute("power")
    if power is not None:
        base, one = value, onnx.numpy_helper.from_array(np.ones(1))
        value = g.op("ConstantOfShape", g.op("Shape", base), value=one)
        for _ in range(power):
            value = g.op("Mul", value, base)
    if g.attribute("limit") is not None:
        limit = float(np.float32(g.attribute("limit")))
        value = g.op("Max", g.op("Min", value, number(limit)), number(-limit))
    unit = number(2.0 ** g.attribute("bits"))
    value = g.op("Div", g.op("Round", g.op("Mul", value, unit)), unit)
    return [g.op("CastLike", value, g.input("x"))]


adjust = library.define("adjust", standard=_standard)


def _save(ctx: Any, inputs: Any, attributes: dict[str, Any], output: Any) -> None:
    ctx.shape, ctx.step = inputs[0].shape, attributes["step"]


def _backward(ctx: Any, grad: Tensor) -> Tensor:
    whole = grad.new_zeros(ctx.shape)
    whole[..., :: ctx.step] = grad
    return whole


def _every_standard(g: Any) -> list[str]:
    starts, ends, axes = (g.constant(np.array([item])) for item in (0, 2**31, -1))
    return [
        g.op("Slice", g.input("x"), starts, ends, axes, g.constant(np.array([g.attribute("step")])))
    ]


every = library.define("every", save=_save, backward=_backward, standard=_every_standard)
