"""author_ops: ops of another author, each with a feature that ours do not use: an output whose
dtype no input has, refusals by numbers, a single dtype, lengths that the data decides, lists of
tensors, optional outputs, writes into an input."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

import myops
from author_ops.arguments import (
    blend,
    clamp_rows,
    clamp_rows_,
    clip,
    clip_,
    concat,
    momentum,
    momentum_,
    peak,
)
from author_ops.lengths import ball_query, nms, select, unique

library = myops.op_library("author_ops")


def _save_indices(ctx: Any, inputs: Any, attributes: dict[str, Any], output: Any) -> None:
    ctx.save_for_backward(output[1])
    ctx.mark_non_differentiable(output[1])
    ctx.shape = inputs[0].shape


def _scatter(ctx: Any, grad_values: Tensor, grad_indices: Any) -> Tensor:
    (indices,) = ctx.saved_tensors
    return torch.zeros(ctx.shape, dtype=grad_values.dtype).scatter(-1, indices, grad_values)


def _top_k_standard(g: Any) -> list[str]:
    k = g.constant(np.array([g.attribute("k")]))
    return list(g.op("TopK", g.input("x"), k, axis=-1, outputs=2))


top_k = library.define(
    "top_k", save=_save_indices, backward=_scatter, standard=_top_k_standard,
    shape=lambda inputs, attributes: 2 * [[*inputs[0].shape[:-1], attributes["k"]]],
)  # fmt: skip


def _save_index(ctx: Any, inputs: Any, attributes: dict[str, Any], output: Any) -> None:
    ctx.save_for_backward(inputs[1])
    ctx.shape = inputs[0].shape


def _add_rows(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
    (index,) = ctx.saved_tensors
    return torch.zeros(ctx.shape, dtype=grad.dtype).index_add(0, index, grad), None


pick = library.define(
    "pick", save=_save_index, backward=_add_rows,
    standard=lambda g: [g.op("Gather", g.input("table"), g.input("index"))],
)  # fmt: skip


def _save_x(ctx: Any, inputs: Any, attributes: dict[str, Any], output: Any) -> None:
    ctx.save_for_backward(*inputs)


def _cube_backward(ctx: Any, grad: Tensor) -> Tensor:
    (x,) = ctx.saved_tensors
    return 3 * x * x * grad


def _cube_standard(g: Any) -> list[str]:
    x = g.input("x")
    return [g.op("Mul", g.op("Mul", x, x), x)]


cube = library.define(
    "cube", save=_save_x, backward=_cube_backward, standard=_cube_standard,
    shape=lambda inputs, attributes: [inputs[0].shape],
)  # fmt: skip

roi_align = library.define("roi_align", backward="roi_align_backward")

from author_ops.deformable_attention import deformable_attention  # noqa: E402
from author_ops.packed_linear import packed_linear  # noqa: E402
from author_ops.random_dropout import random_dropout  # noqa: E402
from author_ops.soft_scale import soft_scale, soft_scale_1  # noqa: E402

__all__ = [
    "ball_query", "blend", "clamp_rows", "clamp_rows_", "clip", "clip_", "concat", "cube",
    "deformable_attention", "momentum", "momentum_", "nms", "packed_linear", "peak", "pick",
    "random_dropout", "roi_align", "select", "soft_scale", "soft_scale_1", "top_k", "unique",
]  # fmt: skip
