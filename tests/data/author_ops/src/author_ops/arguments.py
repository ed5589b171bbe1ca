"""Ops with a list of tensors, with optional outputs, and one that writes into its input."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

import myops

library = myops.op_library("author_ops")


def _save_lengths(ctx: Any, inputs: Any, attributes: dict[str, Any], output: Any) -> None:
    ctx.axis = attributes.get("axis", 0)
    ctx.lengths = [tensor.shape[ctx.axis] for tensor in inputs[0]]


def _split(ctx: Any, grad: Tensor) -> list[Tensor]:
    return list(torch.split(grad, ctx.lengths, ctx.axis))


def _concat_jvp(ctx: Any, tangents: list[Tensor]) -> Tensor:
    return torch.cat(tangents, ctx.axis)


def _concat_shape(inputs: Any, attributes: dict[str, Any]) -> list[Any]:
    axis, (first, *rest) = attributes["axis"], inputs[0]
    lengths = list(first.shape)
    for tensor in rest:
        lengths[axis] = lengths[axis] + tensor.shape[axis]
    return [lengths]


concat = library.define(
    "concat", shape=_concat_shape, save=_save_lengths, backward=_split, jvp=_concat_jvp,
    standard=lambda g: [g.op("Concat", *g.inputs("tensors"), axis=g.attribute("axis"))],
)  # fmt: skip


def _save_places(ctx: Any, inputs: Any, attributes: dict[str, Any], output: Any) -> None:
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(inputs[0], inputs[1])


def _add_peaks(ctx: Any, grad_largest: Tensor, _: Any, grad_at: Tensor) -> tuple[Any, Any]:
    x, weight = ctx.saved_tensors
    column = torch.argmax(x, dim=1)
    to_x = torch.zeros_like(x).scatter_add(1, column[:, None], grad_largest[:, None])
    to_weight = None
    if weight is not None:
        to_weight = torch.zeros_like(weight).index_add(0, column, grad_at)
    return to_x, to_weight


def _peak_standard(g: Any) -> list[str]:
    column = g.op("ArgMax", g.input("x"), axis=1, keepdims=0)
    axis = g.constant(np.array([1]))
    place = g.op("Unsqueeze", column, axis)
    largest = g.op("Squeeze", g.op("GatherElements", g.input("x"), place, axis=1), axis)
    weight = g.input("weight")
    return [
        largest,
        column if g.attribute("return_index") else "",
        g.op("Gather", weight, column) if weight else "",
    ]


peak = library.define(
    "peak", save=_save_places, backward=_add_peaks, standard=_peak_standard,
)  # fmt: skip


def _save_x(ctx: Any, inputs: Any, attributes: dict[str, Any], output: Any) -> None:
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(inputs[0])
    ctx.limit = attributes.get("limit", 1.0)


def _within(ctx: Any, grad_x_out: Tensor, _: Any) -> Tensor:
    (x,) = ctx.saved_tensors
    return grad_x_out * (x.abs() <= ctx.limit)


def _clip_standard(g: Any) -> list[str]:
    limit = g.constant(np.array(g.attribute("limit"), g.dtype("x")))
    outside = g.op("Greater", g.op("Abs", g.input("x")), limit)
    count = g.op("ReduceSum", g.op("Cast", outside, to=7), keepdims=0)
    return [g.op("Clip", g.input("x"), g.op("Neg", limit), limit), count]


clip = library.define("clip", save=_save_x, backward=_within, standard=_clip_standard)
clip_ = library.define("clip_")


def _clamp_rows_standard(g: Any) -> list[str]:
    rank = len(g.shape("x"))
    rows = g.constant(np.array([-1] + [1] * (rank - 1), np.int64))
    top = g.op("Reshape", g.input("top"), rows)
    return [g.op("Where", g.op("Greater", g.input("x"), top), top, g.input("x"))]


clamp_rows = library.define("clamp_rows", standard=_clamp_rows_standard)
clamp_rows_ = library.define("clamp_rows_")


def _save_tensors(ctx: Any, inputs: Any, attributes: dict[str, Any], output: Any) -> None:
    weights, tensors = inputs
    ctx.has_weights = weights is not None
    ctx.count = len(tensors)
    if ctx.has_weights:
        ctx.save_for_backward(weights, *tensors)


def _unblend(ctx: Any, grad: Tensor) -> tuple[Tensor | None, list[Tensor]]:
    if not ctx.has_weights:
        return None, [grad] * ctx.count
    weights, *tensors = ctx.saved_tensors
    to_weights = torch.stack([(grad * tensor).sum() for tensor in tensors])
    return to_weights, [grad * weight for weight in weights]


def _blend_standard(g: Any) -> list[str]:
    weights, parts = g.input("weights"), g.inputs("tensors")
    if weights:
        chosen = [g.op("Gather", weights, g.constant(np.array(k))) for k in range(len(parts))]
        parts = [g.op("Mul", part, weight) for part, weight in zip(parts, chosen, strict=True)]
    return [g.op("Sum", *parts)]


blend = library.define("blend", save=_save_tensors, backward=_unblend, standard=_blend_standard)


def _momentum_standard(g: Any) -> list[str]:
    rate, decay = (
        g.constant(np.array(g.attribute(name), g.dtype("parameter"))) for name in ("rate", "decay")
    )
    speed = g.op("Add", g.op("Mul", decay, g.input("speed")), g.input("grad"))
    step = g.op("Mul", rate, speed)
    count = g.op("Unsqueeze", g.op("Size", step), g.constant(np.array([0])))
    moved = g.op("Sub", g.input("parameter"), step)
    return [moved, speed, count, step if g.attribute("return_step") else ""]


momentum = library.define("momentum", standard=_momentum_standard)
momentum_ = library.define("momentum_")
