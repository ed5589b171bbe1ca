"""Device: results and gradients on another device are those of the CPU, and equal in every run."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np
import torch

from myops.testing import casts, variations
from myops.testing.bits import (
    different_bits,
    given_of,
    is_float,
    parts,
    to_numpy,
    too_far,
    widened,
)
from myops.testing.calls import CallOutcome, refusal
from myops.testing.cases import Case
from myops.testing.derivatives import leaves_of
from myops.testing.trial import Trial

_CLOSE_CAUSE = (
    "the kernel of the device is wrong here. Look at lengths that the number of threads does not "
    "divide, at strides (it gets those of the tensor), and at the type in which it sums. If only "
    "the order of a sum differs, give a larger tolerance"
)
_AGAIN_CAUSE = (
    "the result depends on the order of the threads: an atomic addition, shared memory that is "
    "read before all threads have written, or memory that is not initialised"
)
_KEPT_CAUSE = (
    "the description, or a function of your own, makes outputs of another kind on one of the "
    "devices"
)
_NEARLY = 16  # the largest finite number divided by this is nearly infinite
_GRADIENT_FACTOR = 4  # of the tolerance: a gradient has more sums


def on_device(trial: Trial) -> None:
    """Compares every derived call, and its gradients, on `device=` with the CPU, and with itself
    bit for bit."""
    stays = variations.value_places(trial.tested, trial.case)
    for label, case in _derived(trial):
        there = case.having(
            [
                item if place in stays else moved(item, trial.settings.device)
                for place, item in enumerate(case.tensors)
            ]
        )
        expected, actual = _run(trial, case), _run(trial, there)
        if expected.refused and expected.refusal == actual.refusal:
            trial.tally.refused.append(actual.refusal)
            continue
        if expected.refused or actual.refused:
            trial.tally.fail(
                label,
                f"{trial.settings.device}: {actual.refusal or 'a result'}",
                f"on the CPU: {expected.refusal or 'a result'}",
                "a check in the kernel, where a device cannot have it. Checks belong into the "
                "shape rule. An op without a kernel for the device refuses every call",
            )
            continue
        _compare(trial, label, actual, expected, 1)
        _same_bits(trial, label, _run(trial, there), actual)
        if trial.settings.gradients:
            _gradients(trial, label, case, there)


def _derived(trial: Trial) -> Iterator[tuple[str, Case]]:
    """The case, and those with other lengths, layouts, dtypes and numbers at the edge."""
    case = trial.case
    yield "", case
    yield from variations.lengths(case, trial.axes)
    if trial.axes:
        yield "made large", variations.enlarged(trial.tested, case, trial.axes)
    yield from variations.layouts(case)
    for parameter, dtype, other in casts.dtypes(trial.tested, case):
        yield f"{parameter} = {dtype}", other
    for kind, label, other in casts.specials(case):
        yield f"{kind} {label}", other


def moved(item: torch.Tensor, device: str) -> torch.Tensor:
    """The tensor on the device, with its strides and its offset in its storage."""
    last = sum((n - 1) * step for n, step in zip(item.shape, item.stride(), strict=True))
    extent = item.storage_offset() + (last + 1 if item.numel() else 0)
    memory = item.detach().as_strided((extent,), (1,), 0).to(device, copy=True)
    return memory.as_strided(item.shape, item.stride(), item.storage_offset())


@dataclass(frozen=True)
class _Outcome(CallOutcome):
    strides: list[tuple[int, ...]] = field(default_factory=list)


def _outcome(tensors: Sequence[torch.Tensor]) -> _Outcome:
    arrays = [np.array(to_numpy(item.detach().cpu())) for item in tensors]
    return _Outcome(arrays, strides=[item.stride() for item in tensors])


def _run(trial: Trial, case: Case) -> _Outcome:
    try:
        found = given_of(trial.tested.function(*case.args, **case.kwargs))
    except Exception as error:  # any exception is a refusal, which is compared
        return _Outcome([], refusal(error))
    devices = {item.device.type for item in case.tensors}
    for item in found:
        if devices and item.device.type not in devices:
            trial.tally.fail(
                "", f"an output on {item.device.type}", " or ".join(devices), _KEPT_CAUSE
            )
    return _outcome(found)


def _compare(trial: Trial, label: str, actual: _Outcome, expected: _Outcome, factor: float) -> None:
    trial.tally.ran += 1
    who = trial.settings.device
    for what, one, other in (
        ("dtypes", *([str(item.dtype) for item in run.outputs] for run in (actual, expected))),
        ("strides", actual.strides, expected.strides),
    ):
        if one != other:
            trial.tally.fail(label, f"{who}: {what} {one}", f"on the CPU: {other}", _KEPT_CAUSE)
            return
    if any(trial.tolerance(str(item.dtype)) for item in expected.outputs):
        found = [_overflowing(*pair) for pair in zip(actual.outputs, expected.outputs, strict=True)]
        got, wanted = too_far(
            found, expected.outputs, lambda dtype: factor * trial.tolerance(dtype)
        )
    else:
        got, wanted = different_bits(actual.outputs, expected.outputs)
    if got:
        trial.tally.fail(label, f"{who}: {got}", f"on the CPU: {wanted}", _CLOSE_CAUSE)


def _overflowing(actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """`actual` with the expected number where one of the two is infinite and the other one, of the
    same sign, nearly is: a sum in another order overflows elsewhere."""
    if not is_float(actual) or actual.shape != expected.shape or actual.dtype != expected.dtype:
        return actual
    most = float(ml_dtypes.finfo(parts(actual).dtype).max) / _NEARLY
    one, other = (widened(item).reshape(-1) for item in (actual, expected))
    alike = np.isinf(one) != np.isinf(other)
    alike &= (np.minimum(np.abs(one), np.abs(other)) > most) & (np.sign(one) == np.sign(other))
    if not alike.any():
        return actual
    made, flat = parts(actual).copy(), parts(expected).reshape(-1)
    made.reshape(-1)[alike] = flat[alike]
    return made.reshape(-1).view(actual.dtype).reshape(actual.shape)


def _same_bits(trial: Trial, label: str, again: _Outcome, first: _Outcome) -> None:
    got, wanted = different_bits(again.outputs, first.outputs)
    if got:
        trial.tally.fail(label, f"called again: {got}", wanted, _AGAIN_CAUSE)


def _gradients(trial: Trial, label: str, case: Case, there: Case) -> None:
    places = trial.differentiable(case)
    if not places:
        return
    expected, actual, again = (
        _outcome(_gradients_of(trial, one, places)) for one in (case, there, there)
    )
    if not expected.outputs:
        return
    where = f"{label}, gradients".lstrip(", ")
    _compare(trial, where, actual, expected, _GRADIENT_FACTOR)
    _same_bits(trial, where, again, actual)


def _gradients_of(trial: Trial, case: Case, places: list[int]) -> list[torch.Tensor]:
    case, leaves = leaves_of(case, places)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = [
            item
            for item in given_of(trial.tested.function(*case.args, **case.kwargs))
            if item.requires_grad
        ]
        if not results:
            return []
        generator = torch.Generator().manual_seed(0)
        arriving = [
            torch.rand(item.shape, generator=generator, dtype=torch.float64).to(item)
            for item in results
        ]
        found = torch.autograd.grad(results, leaves, arriving, allow_unused=True)
    return [item for item in found if item is not None]
