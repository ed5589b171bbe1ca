"""Transforms: torch.func.vmap agrees with single calls, forward mode with reverse mode."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from myops.testing import casts, variations
from myops.testing.bits import arrays_of, given_of, too_far
from myops.testing.calls import refusal
from myops.testing.cases import Case
from myops.testing.derivatives import total_of
from myops.testing.trial import Trial

_FACTORS = (1.0, 0.75, 0.5)  # of the floats in the elements of a batch
_NO_FORWARD_MODE = "has no derivative in forward mode"
_BATCH_CAUSE = (
    "the rule `vmap` of the op is wrong: it takes one element's input for all of them, puts the "
    "batch on another axis, or names another axis in out_dims. Without a rule, each element of the "
    "batch is a call of its own"
)
_FORWARD_CAUSE = (
    "`jvp` of the op is wrong, or backward is (then 'gradients' fails too): a factor is missing, "
    "or the tangent of an input is left out. The sum of grad * tangent over the inputs must be the "
    "sum of grad * tangent over the outputs"
)

Tensors = Sequence[torch.Tensor]


def transforms(trial: Trial) -> None:
    """Compares batches with single calls, then the two modes of differentiation."""
    trial.call()
    _batches(trial)
    if trial.settings.gradients:
        _forward_mode(trial)


def _batches(trial: Trial) -> None:
    fixed = variations.value_places(trial.tested, trial.case)
    places = [place for place in range(len(trial.case.tensors)) if place not in fixed]
    chosen = [[place] for place in places] + ([places] if len(places) > 1 else [])
    for batched in chosen:
        labels = [trial.case.labels()[place] for place in batched]
        label = f"a batch of {' and '.join(labels)}"
        singles = [_scaled(trial.case, batched, factor) for factor in _FACTORS]
        alike = all(variations.accepts(trial.tested.function, case) for case in singles)
        expected = _stacked([_results(trial, case) for case in singles]) if alike else None
        if expected is None:  # other numbers are refused, or decide another length
            singles = [trial.case] * len(_FACTORS)
            expected = _stacked([_results(trial, case) for case in singles]) or []
        for first in (True, False):
            axis = "first" if first else "last"
            where = f"{label} on the {axis} axis"
            _batch(trial, where, singles, batched, first, partial(_results, trial), expected)
        floats = any(map(casts.is_float, _results(trial, trial.case)))
        asked = set(trial.differentiable()) if trial.settings.gradients and floats else set()
        leaves = [place for place in batched if place in asked]
        if leaves:
            derive = partial(_gradients, trial, leaves)
            wanted = _stacked([derive(case) for case in singles]) or []
            _batch(trial, f"gradients of {label}", singles, batched, True, derive, wanted)


def _batch(
    trial: Trial,
    label: str,
    singles: Sequence[Case],
    batched: list[int],
    first: bool,
    function: Callable[[Case], Tensors],
    expected: Tensors,
) -> None:
    """Compares one call of torch.func.vmap with the single calls."""
    case = singles[0]
    axes = [0 if first else case.tensors[place].dim() for place in batched]

    def run(*tensors: torch.Tensor) -> Any:
        varied = case.tensors
        for place, tensor in zip(batched, tensors, strict=True):
            varied[place] = tensor
        return tuple(function(case.having(varied)))

    stacks = [
        torch.stack([one.tensors[place] for one in singles], axis)
        for place, axis in zip(batched, axes, strict=True)
    ]
    trial.tally.ran += 1
    try:
        results = torch.func.vmap(run, in_dims=tuple(axes))(*stacks)
    except Exception as error:  # of the rule, of torch
        trial.tally.fail(label, f"torch.func.vmap: {refusal(error)}", "a result", _BATCH_CAUSE)
        return
    got, wanted = too_far(arrays_of(results), arrays_of(tuple(expected)), trial.tolerance)
    if got:
        trial.tally.fail(label, f"torch.func.vmap: {got}", f"single calls: {wanted}", _BATCH_CAUSE)


def _results(trial: Trial, case: Case) -> list[torch.Tensor]:
    return given_of(trial.tested.function(*case.args, **case.kwargs))


def _scaled(case: Case, places: list[int], factor: float) -> Case:
    tensors = case.tensors
    for place in places:
        tensors[place] = casts.scaled(tensors[place], factor)
    return case.having(tensors)


def _stacked(results: Sequence[Tensors]) -> list[torch.Tensor] | None:
    """Each output of the single calls as a batch; None if their shapes differ."""
    columns = [list(column) for column in zip(*results, strict=True)]
    if any(len({tuple(item.shape) for item in column}) > 1 for column in columns):
        return None
    return [torch.stack(column) for column in columns]


def _gradients(trial: Trial, places: list[int], case: Case) -> list[torch.Tensor]:
    def total(*leaves: torch.Tensor) -> torch.Tensor:
        tensors = case.tensors
        for place, leaf in zip(places, leaves, strict=True):
            tensors[place] = leaf
        return total_of(tuple(_results(trial, case.having(tensors))))

    grads = torch.func.grad(total, argnums=tuple(range(len(places))))
    return list(grads(*(case.tensors[place] for place in places)))


def _forward_mode(trial: Trial) -> None:
    """Compares the tangents of forward mode with the gradients of reverse mode."""
    places = trial.differentiable()
    case = trial.case
    wide = casts.in_dtype(trial.tested, case, places, torch.float64) if places else case
    if variations.accepts(trial.tested.function, wide):
        case = wide
    generator = torch.Generator().manual_seed(0)

    def floats(*leaves: torch.Tensor) -> tuple[torch.Tensor, ...]:
        tensors = case.tensors
        for place, leaf in zip(places, leaves, strict=True):
            tensors[place] = leaf
        return tuple(filter(casts.is_float, _results(trial, case.having(tensors))))

    for chosen in [[place] for place in places] + ([places] if len(places) > 1 else []):
        label = f"the tangent of {' and '.join(case.labels()[place] for place in chosen)}"
        leaves = tuple(case.tensors[place] for place in places)
        tangents = tuple(
            _random(leaf, generator) if place in chosen else torch.zeros_like(leaf)
            for place, leaf in zip(places, leaves, strict=True)
        )
        try:
            with warnings.catch_warnings():  # torch's own rules use its deprecated torch.jit.script
                warnings.filterwarnings("ignore", ".*torch.jit.script", DeprecationWarning)
                moved = torch.func.jvp(floats, leaves, tangents)[1]
        except NotImplementedError as error:
            if _NO_FORWARD_MODE not in str(error):
                raise
            return
        except Exception as error:  # of the rule
            trial.tally.ran += 1
            trial.tally.fail(label, f"torch.func.jvp: {refusal(error)}", "a result", _FORWARD_CAUSE)
            return
        if not moved:
            return
        results, pull = torch.func.vjp(floats, *leaves)[:2]
        weights = tuple(_random(item, generator) for item in results)
        forward, _ = _inner(weights, moved)
        backward, size = _inner(pull(weights), tangents)
        trial.tally.ran += 1
        limit = max(trial.tolerance(str(item.dtype)[6:]) for item in (*results, *leaves))
        if not abs(forward - backward) <= 100 * limit * max(size, abs(backward)):
            trial.tally.fail(
                label,
                f"torch.func.jvp: a slope of {forward:.9g} in a random direction",
                f"{backward:.9g}, by backward",
                _FORWARD_CAUSE,
            )


def _random(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    wide = torch.complex128 if like.is_complex() else torch.float64
    return torch.randn(like.shape, dtype=wide, generator=generator).to(like.dtype)


def _inner(one: Tensors, other: Tensors) -> tuple[float, float]:
    """(the real inner product, the length of its terms as a vector)."""
    total = squares = 0.0
    for left, right in zip(one, other, strict=True):
        terms = left.conj() * right
        terms = (terms.real if terms.is_complex() else terms).double()
        total += terms.sum().item()
        squares += terms.square().sum().item()
    return total, squares**0.5
