"""deform_conv2d: the peer is grid_sample and a matrix product, in float32 for 16-bit tensors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F

import myops
from benchmarks.case import Candidate
from benchmarks.cases.deform_conv2d import _reference
from benchmarks.random_shapes.draw import Deform
from benchmarks.random_shapes.problem import Gradient, Problem, channels_last, normal

TOLERANCE = {"float32": 5e-4, "float64": 1e-9, "bfloat16": 2e-2, "float16": 3e-3}
MARGIN = 0.04  # distance of positions from integers, where the gradient of a sample jumps


def problem(shape: Deform, seed: int) -> Problem:
    tensors = _tensors(shape, seed)
    arguments = {"stride": shape.stride, "padding": shape.padding, "dilation": shape.dilation}
    with torch.no_grad():
        doubles = {name: tensor.double() for name, tensor in tensors.items()}
    pads = (*shape.padding, *shape.padding)
    reference = partial(
        _reference(), stride=shape.stride, pads=pads, dilation=shape.dilation,
        group=shape.groups, offset_group=shape.offset_groups,
    )  # fmt: skip

    def ours(X: torch.Tensor, W: torch.Tensor, offset: torch.Tensor, B: torch.Tensor,
             mask: torch.Tensor | None = None) -> torch.Tensor:  # fmt: skip
        return myops.deform_conv2d(X, offset, W, B, mask=mask, **arguments)

    calls: dict[str, Callable[..., torch.Tensor]] = {"myops": ours}
    # Only in float32: torch 2.13 writes past its memory in some 16-bit convolutions on a CPU with
    # AVX-512. Results are infinite, or the process ends: number 66 of seed 101 backward (float16,
    # groups), 6 of seed 12 backward and 11 of seed 12 forward (bfloat16).
    if shape.dtype in ("bfloat16", "float16"):
        calls["grid_sample in float32"] = partial(_in_float32, shape)
    else:
        calls["grid_sample"] = partial(by_grid_sample, shape)
    sides = ["torch", *["peer"] * (len(calls) - 1)]
    if not shape.backward:
        expected = [reference(**doubles)]
        candidates = [
            Candidate(name, partial(call, **tensors), lambda y: [y], "allocated", side)
            for (name, call), side in zip(calls.items(), sides, strict=True)
        ]
        return Problem(candidates, expected, TOLERANCE[shape.dtype], candidates[0].run)
    grad = normal((shape.shape[0], shape.filters, *shape.size), shape.dtype, seed + 9)
    if shape.channels_last:
        grad = channels_last(grad)
    for tensor in (*tensors.values(), *doubles.values()):
        tensor.requires_grad_(True)
    right = reference(**doubles)
    expected = list(torch.autograd.grad(right, [*doubles.values()], grad.double()))
    candidates = [
        Candidate(name, Gradient(call, tensors, grad), lambda grads: grads, "allocated", side)
        for (name, call), side in zip(calls.items(), sides, strict=True)
    ]
    return Problem(candidates, expected, TOLERANCE[shape.dtype], candidates[0].run)


def _tensors(shape: Deform, seed: int) -> dict[str, torch.Tensor]:
    taps = shape.kernel[0] * shape.kernel[1] * shape.offset_groups
    batch, channels = shape.shape[:2]
    depth = channels // shape.groups
    found = {
        "X": normal(shape.shape, shape.dtype, seed),
        "W": normal((shape.filters, depth, *shape.kernel), shape.dtype, seed + 1,
                    (depth * taps) ** -0.5),
        "offset": _offsets((batch, 2 * taps, *shape.size), seed + 2, shape.spread),
        "B": normal((shape.filters,), shape.dtype, seed + 3),
    }  # fmt: skip
    found["offset"] = found["offset"].to(getattr(torch, shape.dtype))
    if shape.mask:
        found["mask"] = normal((batch, taps, *shape.size), shape.dtype, seed + 4).sigmoid()
    if shape.channels_last:
        found["X"] = channels_last(found["X"])
    return found


def _offsets(sizes: tuple[int, ...], seed: int, spread: float) -> torch.Tensor:
    """Within +-3 times the spread, and no nearer than MARGIN to an integer. (Of the usual spread,
    within +-3.5, where bfloat16 has steps of 1/64.)"""
    values = normal(sizes, "float32", seed, spread).clamp(-2.9 * spread, 2.9 * spread)
    whole = values.floor()
    return whole + (values - whole).clamp(MARGIN, 1 - MARGIN)


def by_grid_sample(shape: Deform, X: torch.Tensor, W: torch.Tensor, offset: torch.Tensor,
                   B: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:  # fmt: skip
    """The taps as one tall grid, then a convolution over the samples: what a user writes."""
    batch, channels, height, width = X.shape
    rows, columns = shape.size
    taps = shape.kernel[0] * shape.kernel[1]
    tap = torch.arange(taps)
    y = torch.arange(rows)[:, None] * shape.stride[0] - shape.padding[0]
    x = torch.arange(columns)[None, :] * shape.stride[1] - shape.padding[1]
    y = y + (tap // shape.kernel[1] * shape.dilation[0])[:, None, None]
    x = x + (tap % shape.kernel[1] * shape.dilation[1])[:, None, None]
    moved = offset.view(batch * shape.offset_groups, taps, 2, rows, columns)
    y = (moved[:, :, 0] + y) * (2 / (height - 1)) - 1
    x = (moved[:, :, 1] + x) * (2 / (width - 1)) - 1
    grid = torch.stack([x, y], dim=-1).view(-1, taps * rows, columns, 2)
    images = X.reshape(batch * shape.offset_groups, -1, height, width)
    samples = F.grid_sample(images, grid, align_corners=True)
    if mask is not None:
        samples = samples * mask.view(-1, 1, taps * rows, columns)
    stacked = samples.view(batch, channels * taps, rows, columns)
    return F.conv2d(stacked, W.reshape(W.shape[0], -1, 1, 1), B, groups=shape.groups)


def _in_float32(shape: Deform, **tensors: torch.Tensor) -> torch.Tensor:
    wide = {name: tensor.float() for name, tensor in tensors.items()}
    return by_grid_sample(shape, **wide).to(tensors["X"].dtype)
