"""scaled_tanh: alpha * tanh(x) + bias."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from myops._torch.define import define

__all__ = ["scaled_tanh"]


def scaled_tanh(x: Tensor, bias: Tensor | None = None, *, alpha: float = 1.0) -> Tensor:
    """alpha * tanh(x) + bias."""
    return _scaled_tanh(x, bias, alpha=alpha)


def standard(g: Any) -> list[str]:
    """The op in standard ONNX nodes."""
    alpha = g.constant(np.array(g.attribute("alpha"), g.dtype("x")))
    scaled = g.op("Mul", g.op("Tanh", g.input("x")), alpha)
    return [g.op("Add", scaled, g.input("bias")) if g.input("bias") else scaled]


def reference(x: np.ndarray, alpha: float) -> np.ndarray:
    return alpha * np.tanh(x.astype(np.float64))


def _save(ctx: Any, inputs: Any, attributes: dict[str, Any], output: Tensor) -> None:
    ctx.save_for_backward(inputs[0])
    ctx.alpha = attributes["alpha"]


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor | None]:
    (x,) = ctx.saved_tensors
    needed = ctx.needs_input_grad[1]
    bias = grad.sum_to_size(grad.shape[-1:]) if needed else None
    return grad * ctx.alpha * (1 - torch.tanh(x) ** 2), bias


_scaled_tanh = define(
    "scaled_tanh",
    shape=lambda inputs, attributes: [inputs[0].shape],
    save=_save,
    backward=_backward,
    standard=standard,
)
