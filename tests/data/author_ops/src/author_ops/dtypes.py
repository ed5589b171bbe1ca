"""Ops for the dtypes that the ops of myops do not have: masks, complex numbers, 8 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

import myops

library = myops.op_library("author_ops")


def _save_mask(ctx: Any, inputs: Any, attributes: dict[str, Any], output: Any) -> None:
    ctx.save_for_backward(inputs[1])


def _unmasked(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
    (mask,) = ctx.saved_tensors
    return grad.masked_fill(mask, 0), None


def _where(g: Any) -> list[str]:
    value = g.constant(np.array(g.attribute("value"), g.dtype("x")))
    return [g.op("Where", g.input("mask"), value, g.input("x"))]


masked_fill = library.define("masked_fill", save=_save_mask, backward=_unmasked, standard=_where)


def _slice(g: Any) -> list[str]:
    if g.dtype("x").name.startswith("float8"):
        g.refuse("Slice knows no floats of 8 bits", "Keep the custom node.")
    last, end, step = (g.constant(np.array([n])) for n in (-1, -(2**31), -1))
    return [g.op("Slice", g.input("x"), last, end, last, step)]


mirror = library.define("mirror", backward=lambda ctx, grad: mirror(grad), standard=_slice)


def _save_both(ctx: Any, inputs: Any, attributes: dict[str, Any], output: Any) -> None:
    ctx.save_for_backward(*inputs)


def _of_product(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
    a, b = ctx.saved_tensors
    return grad * b, grad.conj() * a


# ONNX has no operators on complex numbers, so there is no standard form.
conjugate_product = library.define("conjugate_product", save=_save_both, backward=_of_product)


def _quantise_standard(g: Any) -> list[str]:
    scaled = g.op("Div", g.input("x"), g.constant(np.float32(g.attribute("scale"))))
    if g.opset < 19:
        g.refuse("Cast knows float8 since opset 19", "Use opset 19 or up.")
    low, high, zero = (g.constant(np.float32(n)) for n in (-128, 127, 0))
    whole = g.op("Clip", g.op("Round", scaled), low, high)
    whole = g.op("Where", g.op("IsNaN", scaled), zero, whole)
    return [g.op("Cast", whole, to=3), g.op("Cast", scaled, to=17, saturate=0)]


quantise = library.define("quantise", standard=_quantise_standard)


def _dequantise_standard(g: Any) -> list[str]:
    wide = g.op("Cast", g.input("q"), to=1)
    return [g.op("Mul", wide, g.constant(np.float32(g.attribute("scale"))))]


dequantise = library.define("dequantise", standard=_dequantise_standard)
