"""Threads: 1, 2 and 7 threads, and two sessions at once, give the same bits."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from myops import _numpy_call
from myops.testing import casts, variations
from myops.testing.calls import CallOutcome, OpCall, call_arrays, refusal, run_torch
from myops.testing.cases import Case
from myops.testing.families.gradients import backward_calls
from myops.testing.op_under_test import describe
from myops.testing.runtimes import has_pyops
from myops.testing.trial import Trial
from myops.testing.variations import LinkedAxes

COUNTS = (1, 2, 7)
_RUNS = 8  # of each of two callers at once
_CAUSE = (
    "the result depends on the number of threads: sums that are split by threads, or by a grain "
    "that depends on their number. Cut the work by parallel_for(count, grain), whose pieces depend "
    "on nothing else, and add up partial results in the order of the pieces"
)
_TWO_CAUSE = (
    "two calls at once disturb each other: a static or global buffer, or scratch memory that is "
    "kept in the op. Take scratch memory from the context, for each call"
)


@contextlib.contextmanager
def torch_threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def threads(trial: Trial) -> None:
    """Compares the case, enlarged cases, and the gradient's ops with 1, 2 and 7 threads."""
    if trial.tested.info.is_prototype:
        trial.tally.note(
            "does not apply to a prototype: a Python function is told no number of threads"
        )
        return
    longest = variations.most_shared(trial.axes)
    large = [("", trial.case), (_large_label(longest), _large(trial, longest))]
    for label, case in large:
        with torch_threads(1):
            run = trial.run(case)
        if run.inner.refused or run.call is None:
            trial.tally.note(f"{label or 'the case'}: refused: {run.inner.refusal}")
            continue
        for count in COUNTS:
            with torch_threads(count):
                results = {"torch": trial.run(case).inner}
            results["NumPy"] = trial.runtimes.numpy(run.call, count)
            if trial.tested.is_native and not trial.runtimes.host_lacks(run.call):
                results["ONNX Runtime"] = trial.runtimes.native(run.call, count)
            for who, outcome in results.items():
                where = f"{label}, {count} threads".lstrip(", ")
                trial.compare_bits(where, who, outcome, run.inner, _CAUSE)
        if trial.settings.gradients:
            _backward(trial, label, case)
    for axes in trial.axes:
        if axes is not longest:
            _other_axes(trial, _large_label(axes), _large(trial, axes))


def _large_label(axes: LinkedAxes | None) -> str:
    return f"{axes.label} made large" if axes else "made large"


def _large(trial: Trial, axes: LinkedAxes | None) -> Case:
    return variations.enlarged(trial.tested, trial.case, [axes] if axes else [])


def _other_axes(trial: Trial, label: str, case: Case) -> None:
    """The same in NumPy only: work that is divided along another axis is divided by the kernel."""
    with torch_threads(1):
        run = trial.run(case)
    if run.call is None or run.inner.refused:
        return
    for count in COUNTS[1:]:
        outcome = trial.runtimes.numpy(run.call, count)
        trial.compare_bits(f"{label}, {count} threads", "NumPy", outcome, run.inner, _CAUSE)
    if trial.settings.gradients:
        _backward(trial, label, case)


def _backward(trial: Trial, label: str, case: Case) -> None:
    try:
        calls = backward_calls(trial, case)
    except Exception as error:  # "gradients" has the details
        trial.tally.note(f"no gradient to look at: {refusal(error)}")
        return
    for seen in calls:
        info = describe(seen.overload.namespace, seen.name)
        if info is None:
            continue  # not a described kernel, so it has no second runtime
        inputs, attributes = call_arrays(seen)
        first: CallOutcome | None = None
        for count in COUNTS:
            outcome = CallOutcome(_numpy_call.call(info, inputs, attributes, count))
            first = first or outcome
            where = f"{label}, {seen.name}, {count} threads".lstrip(", ")
            trial.compare_bits(where, "NumPy", outcome, first, _CAUSE)


def sessions(trial: Trial) -> None:
    """Compares two callers at once: in two sessions, in one session, in torch."""
    cases = [trial.case, *_other_numbers(trial)]
    runs = [trial.run(case) for case in cases]
    calls = [run.call for run in runs if run.call is not None and not run.inner.refused]
    expected = [run.inner for run in runs if run.call is not None and not run.inner.refused]
    if not calls:
        trial.tally.note("the op refused the case")
        return
    kind = "native" if trial.tested.is_native else "pyop"
    for note in trial.runtimes.notes():
        trial.tally.note(note)

    def in_sessions(number: int, call: OpCall, case: Case) -> CallOutcome:
        return CallOutcome(trial.runtimes.run(two[number], call))

    def in_one_session(number: int, call: OpCall, case: Case) -> CallOutcome:
        return CallOutcome(trial.runtimes.run(two[0], call))

    def in_torch(number: int, call: OpCall, case: Case) -> CallOutcome:
        return run_torch(trial.tested, case).inner

    ways: dict[str, Callable[[int, OpCall, Case], CallOutcome]] = {"torch in two threads": in_torch}
    lacks = trial.runtimes.host_lacks(calls[0])
    if lacks:
        trial.tally.note(lacks)
    elif kind == "native" or has_pyops():
        two = [trial.runtimes.new_session(calls[0], kind) for _ in range(2)]
        ways = {
            "two sessions at once": in_sessions,
            "one session, two threads": in_one_session,
            **ways,
        }
    for label, run in ways.items():

        def caller(number: int, run: Any = run) -> list[tuple[CallOutcome, CallOutcome]]:
            found = []
            for step in range(_RUNS):
                place = (number + step) % len(calls)
                found.append((run(number, calls[place], cases[place]), expected[place]))
            return found

        with ThreadPoolExecutor(2) as pool:
            results = [pair for pairs in pool.map(caller, range(2)) for pair in pairs]
        for outcome, wanted in results:
            sessions_of = "ONNX Runtime" if kind == "native" else "PyOp"
            who = "torch" if "torch" in label else sessions_of
            if not trial.compare_bits(label, who, outcome, wanted, _TWO_CAUSE):
                break


def _other_numbers(trial: Trial) -> list[Case]:
    case = trial.case
    other = case.having([casts.scaled(t, 0.75) for t in case.tensors])
    return [other] if variations.accepts(trial.tested.function, other) else []
