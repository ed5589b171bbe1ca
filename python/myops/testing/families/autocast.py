"""torch.autocast, for ops whose description has a policy: the op computes as if its caller had cast
the tensors, and gradients have the dtypes of the caller's tensors."""

from __future__ import annotations

import functools
from typing import Any

import torch

from myops.testing import variations
from myops.testing.bits import arrays_of
from myops.testing.calls import CallOutcome
from myops.testing.cases import Case, copy_of
from myops.testing.trial import Trial

_CAUSE = (
    "the call under torch.autocast is not what `autocast` of the description promises; a function "
    "around the op that casts by itself, or a gradient whose dtypes do not fit"
)


def autocast(trial: Trial) -> None:
    """Compares eager calls, torch.ops and torch.compile under autocast, in bfloat16 and float16."""
    if not trial.tested.info.autocast:
        return
    cases = [("", trial.case), *_mixed(trial)]
    for label, case in cases:
        for dtype in (torch.bfloat16, torch.float16):
            name = str(dtype).removeprefix("torch.")
            _compare(trial, f"{label}autocast to {name}", case, dtype)


def _mixed(trial: Trial) -> list[tuple[str, Case]]:
    """One tensor in a narrower dtype, as the results of other ops are under autocast."""
    found = []
    numbers = variations.input_of_tensors(trial.tested, trial.case)
    for place, number in enumerate(numbers):
        tensor = trial.case.tensors[place]
        if number is None or not tensor.is_floating_point():
            continue
        item = trial.tested.info.declared(number)
        if item.values or "bfloat16" not in trial.tested.info.types[item.type]:
            continue
        narrow = trial.case.changed(place, tensor.to(torch.bfloat16))
        found.append((f"{item.name} of bfloat16, ", narrow))
    return found


def _as_promised(trial: Trial, case: Case, dtype: torch.dtype) -> Case:
    """The case with explicitly cast tensors."""
    info = trial.tested.info
    tensors = case.tensors
    numbers = variations.input_of_tensors(trial.tested, trial.case)
    of_kind: dict[str, list[int]] = {}
    for place, number in enumerate(numbers):
        item = None if number is None else info.declared(number)
        follows = tensors[place].is_floating_point() and tensors[place].dtype != torch.float64
        if item is not None and not item.values and follows:
            of_kind.setdefault(item.type, []).append(place)
    for kind, places in of_kind.items():
        widest = functools.reduce(torch.promote_types, [tensors[place].dtype for place in places])
        wanted = {"lower": dtype, "float32": torch.float32, "widest": widest}[info.autocast]
        if str(wanted).removeprefix("torch.") in info.types[kind]:
            for place in places:
                tensors[place] = tensors[place].to(wanted)
    return case.having(tensors)


def _compare(trial: Trial, label: str, case: Case, dtype: torch.dtype) -> None:
    function = trial.tested.function
    cast = _as_promised(trial, case, dtype)
    if not variations.accepts(function, cast):
        return
    expected = CallOutcome(arrays_of(function(*cast.args, **cast.kwargs)))
    torch._dynamo.reset()
    compiled: Any = torch.compile(function, fullgraph=True, backend=trial.settings.backend)
    for who, run in (("torch", function), ("torch.compile", compiled)):
        with torch.autocast("cpu", dtype):
            outcome = CallOutcome(arrays_of(run(*case.args, **case.kwargs)))
        trial.compare_bits(label, who, outcome, expected, _CAUSE)
        if trial.settings.gradients:
            _gradients(trial, f"{label}, {who}", run, case, cast, dtype)
    torch._dynamo.reset()


def _gradients(
    trial: Trial, label: str, run: Any, case: Case, cast: Case, dtype: torch.dtype
) -> None:
    """Compares the gradients with those of the explicitly cast call, in the caller's dtypes."""
    results = []
    for given, context in ((case, True), (cast, False)):
        leaves = [
            copy_of(item).requires_grad_() if item.is_floating_point() else item
            for item in given.tensors
        ]
        called = given.having(leaves)
        with torch.autocast("cpu", dtype, enabled=context):
            function = run if context else trial.tested.function
            result = function(*called.args, **called.kwargs)
        items = result if isinstance(result, (tuple, list)) else (result,)
        sums = [item.sum() for item in items if item is not None and item.is_floating_point()]
        wanted = [item for item in leaves if item.is_floating_point()]
        if not sums or not wanted:  # a call on integers has no gradient
            return
        results.append(torch.autograd.grad(sum(sums), wanted, allow_unused=True))
    trial.tally.ran += 1
    originals = [item for item in case.tensors if item.is_floating_point()]
    for place, (one, other) in enumerate(zip(*results, strict=True)):
        if one is None or other is None:
            good = one is other
        else:
            good = torch.equal(one, other.to(originals[place].dtype))
        if not good:
            trial.tally.fail(
                label, f"gradient {place}: {one}", f"that of the cast call: {other}", _CAUSE
            )
