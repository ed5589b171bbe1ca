"""An op whose meaning changed in version 2 of the domain."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

import myops

library = myops.op_library("author_ops")


def _shape(inputs: Any, attributes: dict[str, Any]) -> list[Any]:
    return [inputs[0].shape]


def _save(ctx: Any, inputs: Any, attributes: dict[str, Any], output: Any) -> None:
    ctx.save_for_backward(*inputs)
    ctx.limit, ctx.hard = attributes["limit"], attributes.get("hard", True)


def _backward(ctx: Any, grad: Tensor) -> Tensor:
    (x,) = ctx.saved_tensors
    if ctx.hard:
        return torch.where(x.abs() <= ctx.limit, grad, torch.zeros_like(grad))
    ratio = x / ctx.limit
    return grad * (1 + ratio * ratio) ** -1.5


def _limit(g: Any) -> tuple[np.ndarray, str]:
    limit = np.array(g.attribute("limit"), g.dtype("x"))
    return limit, g.constant(limit)


def _clip(g: Any) -> list[str]:
    limit, name = _limit(g)
    return [g.op("Min", g.op("Max", g.input("x"), g.constant(-limit)), name)]


def _bend(g: Any) -> list[str]:
    if g.attribute("hard"):
        return _clip(g)
    limit, name = _limit(g)
    # 1 / sqrt(1 + r^2) without the square of a large number: r shrinks to at most 1 first.
    ratio = g.op("Div", g.input("x"), name)
    size = g.op("Abs", ratio)
    one = g.constant(np.ones((), limit.dtype))
    most = g.op("Max", size, one)
    scaled, least = g.op("Div", ratio, most), g.op("Div", one, most)
    root = g.op("Sqrt", g.op("Add", g.op("Mul", scaled, scaled), g.op("Mul", least, least)))
    return [g.op("Mul", g.op("Div", scaled, root), name)]


def _to_version_2(g: Any) -> list[str]:
    return [g.next(g.input("x"), limit=g.attribute("limit"), hard=True)]


soft_scale = library.define(
    "soft_scale", shape=_shape, save=_save, backward=_backward, standard=_bend
)
soft_scale_1 = library.define(
    "soft_scale_1", shape=_shape, save=_save, backward=_backward, standard=_clip,
    upgrade=_to_version_2,
)  # fmt: skip
