"""What is true of nms wherever it is computed: in the prototype, and in C++."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor


def save(ctx: Any, inputs: Any, attributes: dict[str, Any], output: Any) -> None:
    ctx.save_for_backward(output[1])
    ctx.mark_non_differentiable(output[1])
    ctx.shape = inputs[0].shape


def backward(ctx: Any, grad_kept: Tensor, grad_indices: Any) -> tuple[Tensor, None]:
    (indices,) = ctx.saved_tensors
    return grad_kept.new_zeros(ctx.shape).index_add(0, indices, grad_kept), None


def standard(g: Any) -> list[str]:
    boxes, scores = (g.op("Cast", g.input(name), to=1) for name in ("boxes", "scores"))
    boxes = g.op("Unsqueeze", boxes, g.constant(np.array([0])))
    scores = g.op("Unsqueeze", scores, g.constant(np.array([0, 1])))
    start, end = g.constant(np.array([2])), g.constant(np.array([3]))
    most = g.op("Slice", g.op("Shape", scores), start, end)
    threshold = g.constant(np.float32([g.attribute("threshold")]))
    found = g.op("NonMaxSuppression", boxes, scores, most, threshold)
    indices = g.op("Gather", found, g.constant(np.array(2)), axis=1)
    return [g.op("Gather", g.input("boxes"), indices), indices]
