"""Derivatives in one random direction compared with differences, at lengths other than the case's.

gradcheck takes differences for each element, which is too slow for long tensors, and needs numbers
that are nowhere near a jump, which only those of a case are promised to be.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from myops.testing import casts
from myops.testing.bits import given_of
from myops.testing.calls import refusal
from myops.testing.cases import Case
from myops.testing.derivatives import leaves_of
from myops.testing.trial import Trial

# Two steps: differences that do not agree are those of a function that jumps or has a kink there.
_STEPS = (1e-6, 1e-7)
_CLOSE = 1e-4  # relative to the size of the terms that are added up
_EPS = torch.finfo(torch.float64).eps
_CAUSE = (
    "backward is wrong at this length (or the kernel is: then 'lengths' fails too), and right at "
    "that of the case: an unrolled loop whose rest is left out or counted twice, a piece of "
    "parallel_for(count, grain, body) where begin is not 0, partial sums that are not all added "
    "up, a division by the length"
)


def confirm(trial: Trial, label: str, case: Case, places: list[int]) -> None:
    """Compares the derivative with differences, if all numbers of the case are of 64 bits."""
    function = trial.tested.function
    varied, leaves = leaves_of(case, places)
    outputs = _floats(function(*varied.args, **varied.kwargs))
    differentiable = [item for item in outputs if item.requires_grad]
    numbers = [item for item in case.tensors if casts.is_float(item)]
    if not differentiable or not all(_is_wide(item) for item in [*numbers, *outputs]):
        return
    generator = torch.Generator().manual_seed(0)
    weights = [_random(item, generator) for item in outputs]
    directions = [_random(leaf, generator) for leaf in leaves]
    total = torch.stack([_dot(w, item) for w, item in zip(weights, outputs, strict=True)]).sum()
    grads = torch.autograd.grad(total, leaves, allow_unused=True)
    pairs = [(g, v) for g, v in zip(grads, directions, strict=True) if g is not None]
    found = sum((_dot(g, v).item() for g, v in pairs), 0.0)
    size = sum((_products(g, v).square().sum().item() for g, v in pairs), 0.0) ** 0.5

    def at(step: float) -> list[torch.Tensor]:
        tensors = case.tensors
        for place, direction in zip(places, directions, strict=True):
            tensors[place] = tensors[place].detach() + step * direction
        moved = case.having(tensors)
        return _floats(function(*moved.args, **moved.kwargs))

    try:
        slopes, noise = zip(*(_slope(at, weights, step) for step in _STEPS), strict=True)
    except Exception as error:  # of an op that refuses numbers so near to those of the case
        trial.tally.note(f"gradients {label}: no differences were taken: {refusal(error)}")
        return
    limits = [
        _CLOSE * max(size, abs(slope)) + 4 * error
        for slope, error in zip(slopes, noise, strict=True)
    ]
    trial.tally.ran += 1
    if all(abs(slope - found) > limit for slope, limit in zip(slopes, limits, strict=True)) and (
        abs(slopes[0] - slopes[1]) <= max(limits)
    ):
        trial.tally.fail(
            f"gradients {label}",
            f"a slope of {found:.9g} in a random direction",
            f"{slopes[0]:.9g}, by differences",
            _CAUSE,
        )


def _slope(
    at: Callable[[float], list[torch.Tensor]], weights: list[torch.Tensor], step: float
) -> tuple[float, float]:
    """(slope, its error by rounding) of the weighted sum of the outputs."""
    slope = error = 0.0
    for weight, more, less in zip(weights, at(step), at(-step), strict=True):
        if more.shape != weight.shape or less.shape != weight.shape:
            return float("nan"), 0.0  # the data decides a length
        slope += _dot(weight, more - less).item() / (2 * step)
        error += _products(weight, more).norm().item() * _EPS / step
    return slope, error


def _floats(result: object) -> list[torch.Tensor]:
    return [item for item in given_of(result) if casts.is_float(item)]


def _is_wide(tensor: torch.Tensor) -> bool:
    return tensor.dtype in (torch.float64, torch.complex128)


def _random(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(like.shape, dtype=like.dtype, generator=generator)


def _products(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """The terms of the real inner product."""
    product = one.conj() * other
    return product.real if product.is_complex() else product


def _dot(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return _products(one, other).sum()
