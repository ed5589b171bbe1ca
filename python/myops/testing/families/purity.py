"""Purity: a call changes no input, depends on no other call, and returns new memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from myops.testing import casts, variations
from myops.testing.bits import arrays_of, given_of
from myops.testing.calls import CallOutcome, OpCall, refusal
from myops.testing.cases import Case, copy_of
from myops.testing.families import history
from myops.testing.memory import fill_freed
from myops.testing.runtimes import HOSTED
from myops.testing.trial import Trial

_LONGER = 67  # larger, because the allocator itself writes the first bytes of small blocks


def purity(trial: Trial) -> None:
    """Checks that a call changes no input, depends on no other call, and returns new memory."""
    _inputs_stay(trial)
    if _repeats(trial):  # otherwise every comparison would fail
        _calls_are_alone(trial)
        history.compare(trial)
        _own_memory(trial)
        _changed_in_place(trial)
        _overwritten(trial)
        _random(trial)


def _inputs_stay(trial: Trial) -> None:
    given = trial.case.copied()
    before = [copy_of(item) for item in given.tensors]
    trial.tested.function(*given.args, **given.kwargs)
    for label, old, new in zip(given.labels(), before, given.tensors, strict=True):
        trial.compare_bits(
            "",
            f"{label} after the call",
            CallOutcome(arrays_of(new)),
            CallOutcome(arrays_of(old)),
            "the kernel writes into an input. An op changes nothing but its outputs: copy first",
        )
    call = trial.call()
    kept = [None if array is None else array.copy() for array in call.inputs]
    trial.runtimes.numpy(call)
    described = trial.tested.info.expanded(len(kept)).inputs
    for item, array, after in zip(described, kept, call.inputs, strict=True):
        if array is not None and after is not None:
            trial.compare_bits(
                "",
                f"{item.name} after the call in NumPy",
                CallOutcome([after]),
                CallOutcome([array]),
                "the kernel writes into an input",
            )


def _others(trial: Trial) -> list[Any]:
    """Calls with other numbers and, if the op allows them, other lengths."""
    case = trial.case
    changed = [
        casts.scaled(t, 0.75) if casts.is_float(t) else t.flip(0) if t.dim() else t
        for t in case.tensors
    ]
    other = case.having(changed)
    found = [other] if variations.accepts(trial.tested.function, other) else []
    for axes in trial.axes[:1]:
        found.append(axes.at(case, axes.length + 3))
    return found


def _calls_are_alone(trial: Trial) -> None:
    call, others = trial.call(), [trial.run(case).call for case in _others(trial)]
    runtimes = {"torch": lambda c: None, **trial.runtimes.bit_for_bit()}
    if trial.runtimes.host_lacks(call):
        runtimes = {who: run for who, run in runtimes.items() if who not in HOSTED}
    if trial.settings.reference is not None:
        for case in _others(trial):
            trial.check_reference("other numbers after the case", case, trial.run(case))
    for who, runtime in runtimes.items():

        def run(call: Any, case: Any, who: str = who, runtime: Any = runtime) -> CallOutcome:
            return trial.run(case).inner if who == "torch" else runtime(call)

        first = run(call, trial.case)
        for other, case in zip(others, _others(trial), strict=True):
            if other is not None:
                run(other, case)
        trial.compare_bits(
            "the call, others, the call again",
            who,
            run(call, trial.case),
            first,
            "the kernel keeps something from call to call: a static or global variable, a cache "
            "whose key is too small, scratch memory that is not cleared",
        )


def _repeats(trial: Trial) -> bool:
    """Checks that the same call gives the same bits on memory with other contents."""
    alike = True
    longer = [(axes.label, axes.at(trial.case, _LONGER)) for axes in trial.axes]
    for label, case in [("", trial.case), *[(f"{x} = {_LONGER}, ", case) for x, case in longer]]:
        first = trial.run(case)
        for fill in (0x00, 0xFF, 0x7F):
            fill_freed([array.nbytes for array in first.inner.outputs], fill)
            alike &= trial.compare_bits(
                f"{label}called again after memory was filled with {fill:#04x}",
                "torch",
                trial.run(case).result,
                first.result,
                "the result is not deterministic: elements of the output or of scratch memory that "
                "are never written, random numbers, the clock, or an order of additions that "
                "threads decide",
            )
    return alike


def _own_memory(trial: Trial) -> None:
    given = trial.case.copied()
    results = trial.tested.function(*given.args, **given.kwargs)
    kept = arrays_of(results)
    _returns_no_input(trial, "", given, results)
    # A shortcut, such as that of a sum over one element, shows in other calls only.
    varied = [(f"{axes.label} = 1", axes.at(trial.case, 1)) for axes in trial.axes]
    varied += [(f"{p} = {n}", c) for p, n, c in casts.dtypes(trial.tested, trial.case)]
    for label, case in varied:
        if variations.accepts(trial.tested.function, case):
            _returns_no_input(trial, label, case, trial.tested.function(*case.args, **case.kwargs))
    for case in _others(trial):
        try:
            trial.tested.function(*case.args, **case.kwargs)
        except Exception as error:  # a call that worked before
            trial.tally.note(f"another call was refused: {refusal(error)}")
    trial.compare_bits(
        "the first result, after other calls",
        "torch",
        CallOutcome(arrays_of(results)),
        CallOutcome(kept),
        "two calls write into the same memory: a static buffer that is returned",
    )


def _returns_no_input(trial: Trial, label: str, given: Case, results: object) -> None:
    inputs = {
        item.untyped_storage().data_ptr(): name
        for item, name in zip(given.tensors, given.labels(), strict=True)
        if item.numel()
    }
    for tensor in given_of(results):
        if tensor.numel() and tensor.untyped_storage().data_ptr() in inputs:
            trial.tally.fail(
                label,
                f"a result in the memory of {inputs[tensor.untyped_storage().data_ptr()]}",
                "memory of its own",
                "the function returns an input; torch's compilers take it for a new tensor, and "
                "an in-place operation on the one changes the other",
            )


def _changed_in_place(trial: Trial) -> None:
    """Checks that an input that changed between calls is read again, also with prepared inputs."""
    for gradient in (False, True):
        given = trial.case.copied()
        floats = [item for item in given.tensors if item.is_floating_point()]
        for item in floats:
            item.requires_grad_(gradient)
        for changed in [*floats, None]:
            for _ in range(3):
                found = CallOutcome(arrays_of(trial.tested.function(*given.args, **given.kwargs)))
            fresh = given.copied()
            trial.compare_bits(
                "called three times, after a tensor was changed in place",
                "torch",
                found,
                CallOutcome(arrays_of(trial.tested.function(*fresh.args, **fresh.kwargs))),
                "the op keeps what it computed from a tensor, and does not see that the tensor "
                "has changed",
            )
            if changed is not None:
                with torch.no_grad():
                    changed.mul_(0.5)
                    if not variations.accepts(trial.tested.function, given):
                        trial.tally.note("the op refuses other numbers in a tensor, which stays")
                        changed.mul_(2)


def _random(trial: Trial) -> None:
    """Checks that a random op depends on its seed only, whichever argument gives it."""
    if not trial.tested.info.random:
        return
    call = trial.call()
    first = trial.runtimes.numpy(call)
    seed = int(call.attributes["seed"] if call.inputs[-1] is None else call.inputs[-1][0])
    by_key = OpCall([*call.inputs[:-1], np.array([seed])], {**call.attributes, "seed": 0})
    by_seed = OpCall([*call.inputs[:-1], None], {**call.attributes, "seed": seed})
    for label, same in (("the seed as a key", by_key), ("the key as a seed", by_seed)):
        for who, runtime in trial.runtimes.bit_for_bit().items():
            trial.compare_bits(
                label, who, runtime(same), first,
                "the kernel takes its random numbers from elsewhere than KernelContext::seed()",
            )  # fmt: skip
    others = [OpCall([*call.inputs[:-1], None], {**call.attributes, "seed": seed ^ n})
              for n in (1, 2, 2**31, 2**32, 2**62)]  # fmt: skip
    outcomes = [first, *(trial.runtimes.numpy(other) for other in others)]
    texts = {b"".join(array.tobytes() for array in item.outputs) for item in outcomes}
    trial.tally.ran += 1
    if len(texts) == 1 and any(array.size > 8 for array in first.outputs):
        trial.tally.fail(
            "other seeds",
            "the same result for six seeds",
            "another one",
            "the kernel does not use KernelContext::seed(); an op that needs no random numbers is "
            "described without .random()",
        )


def _overwritten(trial: Trial) -> None:
    """Checks the result if ONNX Runtime puts an output into the memory of an input, as the
    description allows."""
    allowed = any(output.may_overwrite for output in trial.tested.info.outputs)
    if not allowed or not trial.tested.is_native:
        return
    alike = trial.case
    for axes in trial.axes:
        alike = axes.at(alike, _LONGER)  # an output only fits into an input of its own shape
    large = variations.enlarged(trial.tested, alike, trial.axes)
    for label, case in (("", trial.case), (f"all {_LONGER}, ", alike), ("large, ", large)):
        run = trial.run(case)
        if run.call is None or run.inner.refused or trial.runtimes.host_lacks(run.call):
            continue
        trial.compare_bits(
            f"{label}between other nodes",
            "ONNX Runtime",
            trial.runtimes.overwriting(run.call),
            run.inner,
            "the output lies in the memory of an input, as Output::may_overwrite() allows: the "
            "kernel reads an element of it after it has written the same element, or another one",
        )
