"""soft_clip: limit * tanh(x / limit)."""

from __future__ import annotations

from typing import Any

import myops
import numpy as np
import torch
from torch import Tensor

library = myops.op_library("my_package")  # what csrc/ was compiled to


def soft_clip(x: Tensor, limit: float = 1.0) -> Tensor:
    """Squeezes numbers smoothly between -limit and limit: limit * tanh(x / limit).

    Args:
        x: Tensor of any shape, float32 or float64.
        limit: What the absolute values stay below; above 0.

    Returns:
        Tensor of the shape and dtype of x. Differentiable any number of times.

    Raises:
        RuntimeError: Another dtype, or a limit that is not above 0.
    """
    if torch.jit.is_scripting():
        return torch.ops.my_package.soft_clip(x, limit=limit)
    else:
        return _soft_clip(x, limit=limit)


def _save(ctx: Any, inputs: Any, attributes: dict[str, Any], output: Tensor) -> None:
    ctx.save_for_backward(output)
    ctx.limit = attributes["limit"]


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor]:
    (y,) = ctx.saved_tensors
    return (grad * (1 - (y / ctx.limit) ** 2),)


def _standard(g: Any) -> list[str]:
    """The same in standard ONNX nodes, for runtimes that do not have the kernel."""
    limit = g.constant(np.array(g.attribute("limit"), g.dtype("x")))
    return [g.op("Mul", g.op("Tanh", g.op("Div", g.input("x"), limit)), limit)]


_soft_clip = library.define(
    "soft_clip",
    save=_save,
    backward=_backward,
    standard=_standard,
)
