"""torch.jit.trace: the trace is saved, loaded, and called at other lengths, with gradients."""

from __future__ import annotations

import io
import warnings

import torch

from myops.testing.bits import arrays_of
from myops.testing.calls import CallOutcome, refusal
from myops.testing.derivatives import leaves_of
from myops.testing.families.programs import compare_gradients, head, module_of, other_lengths
from myops.testing.trial import Trial

_TRACE_CAUSE = (
    "the trace does not hold the dispatcher op but a Python function (torch.jit.save refuses it), "
    "or a number that was computed from a length"
)


def _refused(trial: Trial) -> None:
    """Checks that lists of strings are refused, because torch.jit.trace has none."""
    trial.tally.ran += 1
    try:
        torch.jit.trace(module_of(trial), tuple(trial.case.tensors), check_trace=False)
    except Exception as error:  # of torch.jit, of the op
        if "list of strings" in refusal(error):
            return
        said = head(refusal(error))
    else:
        said = "a trace"
    trial.tally.fail("", said, "an error that names the list of strings", _TRACE_CAUSE)


def traced(trial: Trial) -> None:
    """Checks torch.jit.trace of the function, saved and loaded: eager's bits and gradients."""
    for item in trial.tested.info.attributes:
        given = trial.case.kwargs.get(item.name)
        if item.type != "strings" or given is None:
            continue
        if item.default is None or list(given) != list(item.default):
            _refused(trial)
            return
    module = module_of(trial)
    places = trial.differentiable() if trial.settings.gradients else []
    example, _ = leaves_of(trial.case, places)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", torch.jit.TracerWarning)
            warnings.simplefilter("ignore", DeprecationWarning)  # of torch.jit, in newer torch
            made = torch.jit.trace(module, tuple(example.tensors), check_trace=False)
            file = io.BytesIO()
            torch.jit.save(made, file)
            file.seek(0)
            program = torch.jit.load(file)
    except Exception as error:  # of torch.jit, of the op
        trial.tally.fail("", head(refusal(error)), "a trace that can be saved", _TRACE_CAUSE)
        return
    for label, case in [("", trial.case), *other_lengths(trial)]:
        ran, leaves = leaves_of(case, places)
        expected_case, expected_leaves = leaves_of(case, places)
        expected = module.call(expected_case.tensors)
        try:
            result = program(*ran.tensors)
        except Exception as error:  # of torch.jit, of the op
            trial.tally.fail(label, head(refusal(error)), "a result", _TRACE_CAUSE)
            continue
        outcome, wanted = CallOutcome(arrays_of(result)), CallOutcome(arrays_of(expected))
        trial.compare_bits(label, "torch.jit.trace", outcome, wanted, _TRACE_CAUSE)
        compare_gradients(
            trial, label, "torch.jit.trace", result, leaves, expected, expected_leaves
        )
