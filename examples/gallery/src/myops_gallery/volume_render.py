"""volume_render: colours along rays through a volume that emits and absorbs light, as in NeRF."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

import myops

library = myops.op_library("myops_gallery")


def volume_render(
    densities: Tensor, colors: Tensor, lengths: Tensor, background: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Volume rendering along rays, with S samples on each, the nearest first.

    Sample i absorbs alpha_i = 1 - exp(-densities_i * lengths_i) of what comes from behind; its
    weight is alpha_i (1 - alpha_0) ... (1 - alpha_{i-1}).

    Args:
        densities: Tensor[R, S], float32 or float64; what a unit of length absorbs, 0 or more.
        colors: Tensor[R, S, C] of any number of channels.
        lengths: Tensor[R, S], of the samples along their ray, in the unit of densities.
        background: What is behind the samples, in every channel.

    Returns:
        pixels Tensor[R, C], the weighted sum of colors, and weights Tensor[R, S]. With these,
        `(weights * places).sum(1)` is the depth and `1 - weights.sum(1)` what comes through to the
        background. Both are differentiable once, with respect to all three tensors.

    Raises:
        RuntimeError: A rank, length or dtype does not fit.

    Source: Mildenhall et al. 2020, https://arxiv.org/abs/2003.08934, equation 3.

    Example:
        >>> pixels, weights = volume_render(torch.ones(8, 32), torch.rand(8, 32, 3),
        ...                                 torch.full((8, 32), 0.1), background=1.0)
    """
    if torch.jit.is_scripting():
        call = torch.ops.myops_gallery.volume_render
        return call(densities, colors, lengths, background=background)
    else:
        return _volume_render(densities, colors, lengths, background=background)


def _standard(g: Any) -> list[str]:
    """In standard ONNX nodes; products of transmittances are sums of their logarithms."""
    if g.opset < 11:
        g.refuse("it has no CumSum", "Export with opset_version=11 or later.")
    dtype, axis = g.dtype("colors"), g.constant(np.array(1))
    one, background = (g.constant(np.array(n, dtype)) for n in (1, g.attribute("background")))
    depths = g.op("Neg", g.op("Mul", g.input("densities"), g.input("lengths")))
    through = g.op("Exp", g.op("CumSum", depths, axis, exclusive=1))
    weights = g.op("Mul", through, g.op("Sub", one, g.op("Exp", depths)))
    rows = g.op("Reshape", weights, g.constant(np.array([0, 1, -1])))  # [R, 1, S]
    colors = g.op("Sub", g.input("colors"), background)  # the weights and T_S add up to 1
    sums = g.op("Add", g.op("MatMul", rows, colors), background)
    return [g.op("Reshape", sums, g.constant(np.array([0, -1]))), weights]


_volume_render = library.define(
    "volume_render", backward="volume_render_backward", standard=_standard
)
