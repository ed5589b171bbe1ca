"""Several derivatives at once: of two calls, twice of one call, of a call with one tensor twice."""

from __future__ import annotations

import itertools

import torch

from myops.testing import casts, variations
from myops.testing.bits import arrays_of, too_far
from myops.testing.calls import CallOutcome, refusal
from myops.testing.cases import Case
from myops.testing.derivatives import leaves_of, total_of
from myops.testing.trial import Trial

_FACTOR = 4  # of the tolerance: torch may add up in another order
_CAUSE = (
    "what backward needs is kept outside of the call: `save` stores it in a global variable or in "
    "the op, or the kernel in a static one. Each call has a ctx of its own: ctx.save_for_backward"
)
_TWICE_CAUSE = (
    "backward writes into what was saved, or into the incoming gradient, or frees it; it returns "
    "new tensors and changes none"
)
_SHARED_CAUSE = (
    "f(x, x): each input has a gradient of its own, and torch adds them up. `backward` returns one "
    "tensor twice, or tells inputs apart by their memory"
)


def compare(trial: Trial, places: list[int]) -> None:
    """Compares with the derivatives of each call alone."""
    if trial.tested.info.random:
        return  # each call has numbers of its own
    try:
        _two(trial, places)
        _one_tensor_twice(trial, places)
    except Exception as error:  # of autograd or of a backward
        trial.tally.fail("", refusal(error), "derivatives, as of a call alone", _CAUSE)


def _two(trial: Trial, places: list[int]) -> None:
    other = trial.case.having([casts.scaled(item, 0.75) for item in trial.case.tensors])
    other = other if variations.accepts(trial.tested.function, other) else trial.case
    alone = _grads(*_graph(trial, trial.case, places))
    first, second = (_graph(trial, case, places) for case in (trial.case, other))
    runs = {
        "gradients after another call": (first, _CAUSE),
        "the same gradients again": (first, _TWICE_CAUSE),
    }
    for label, (graph, cause) in runs.items():
        found = CallOutcome(arrays_of(_grads(*graph)))
        trial.compare_bits(label, "torch", found, CallOutcome(arrays_of(alone)), cause)
    _grads(*second)


def _graph(trial: Trial, case: Case, places: list[int]) -> tuple[torch.Tensor, list[torch.Tensor]]:
    varied, leaves = leaves_of(case, places)
    return total_of(trial.tested.function(*varied.args, **varied.kwargs)), leaves


def _grads(total: torch.Tensor, leaves: list[torch.Tensor]) -> list[torch.Tensor]:
    found = torch.autograd.grad(total, leaves, retain_graph=True, allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for g, x in zip(found, leaves, strict=True)]


def _one_tensor_twice(trial: Trial, places: list[int]) -> None:
    """The gradient of a tensor that is two inputs is the sum of both gradients."""
    tensors, labels = trial.case.tensors, trial.case.labels()
    for one, other in itertools.combinations(places, 2):
        first, second = tensors[one], tensors[other]
        case = trial.case.changed(other, first)
        if (first.shape, first.dtype) != (second.shape, second.dtype):
            continue
        if not variations.accepts(trial.tested.function, case):
            continue
        expected = sum(_grads(*_graph(trial, case, [one, other])))
        leaf = first.detach().clone().requires_grad_()
        shared = case.changed(one, leaf).changed(other, leaf)
        total = total_of(trial.tested.function(*shared.args, **shared.kwargs))
        found = _grads(total, [leaf])
        trial.tally.ran += 1
        got, wanted = too_far(
            arrays_of(found), arrays_of(expected), lambda dtype: _FACTOR * trial.tolerance(dtype)
        )
        if got:
            label = f"{labels[one]} and {labels[other]} are one tensor"
            trial.tally.fail(label, f"derivative {got}", wanted, _SHARED_CAUSE)
