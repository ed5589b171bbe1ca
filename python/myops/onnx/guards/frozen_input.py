"""Check "frozen_input": an input that changes PyTorch's result changes the exported model's result.

Each input gets other values. If PyTorch's result changes, the exported model's must change too. An
input that is missing there, or has no effect, was turned into a constant by the export.
"""

from __future__ import annotations

from typing import Any

from myops.onnx.exporting.inputs import Slot
from myops.onnx.guards import _advice, _op_rules, frozen_length, unused_inputs
from myops.onnx.guards._changes import other_values
from myops.onnx.guards._difference import compare
from myops.onnx.guards._errors import ExportCheckError
from myops.onnx.guards._exported import CannotRunError, Changes, Exported, MissingLibraryError

NAME = "frozen_input"
_SECONDS = 30.0  # for all inputs together


def check(exported: Exported) -> None:
    frozen_length.check(exported)
    try:
        base = exported.ort_base
    except (CannotRunError, MissingLibraryError, RuntimeError):
        base = None  # the check "numbers" reports the error
    slots = exported.inputs.slots
    # Two runs or three for an input.
    affordable = max(1, int(_SECONDS / (4 * exported.seconds + 1e-3)))
    if len(slots) > affordable:
        exported.warn(
            f"{NAME}: one run takes {exported.seconds:.1f} s, so only {affordable} of "
            f"{len(slots)} inputs were checked by running; the others by the graph."
        )
    for number, slot in enumerate(slots):
        if exported.random or number >= affordable:
            _check_graph(exported, slot)
        else:
            _check_runs(exported, slot, base)


def _check_runs(exported: Exported, slot: Slot, base: list[Any] | None) -> None:
    """Runs both with other values of one input."""
    for value in other_values(exported.inputs.tensor(slot)):
        changes = {slot.name: value}
        try:
            wanted = exported.torch_run(changes)
        except Exception:  # not a legal value for this model
            continue
        moved = compare(exported.base, wanted)
        if moved is None:
            continue  # perhaps another value changes the result
        if slot.name not in exported.graph_inputs:
            raise ExportCheckError(NAME, _missing(exported, slot, changes))
        if base is None:
            _check_graph(exported, slot, follows=True)
            return
        try:
            got = exported.ort_run(changes)
        except RuntimeError as error:
            raise ExportCheckError(
                NAME,
                f"with another value of {slot.name!r} PyTorch runs, but the exported model fails, "
                f"so part of it depends on the example's value: {error}. "
                f"{_advice_for(exported, slot, changes)}",
            ) from error
        if compare(base, got) is None:
            raise ExportCheckError(
                NAME,
                f"another value of {slot.name!r} changes the result in PyTorch, but not that of "
                f"the exported model: {_told(exported, slot, changes)}",
            )
        exported.pairs.append((slot.name, value, wanted, got))
        return


def _check_graph(exported: Exported, slot: Slot, follows: bool = False) -> None:
    """Without runs: if PyTorch's result depends on an input, a path must lead from it to an
    output."""
    if slot.name in exported.graph_inputs and unused_inputs.leads_to_output(exported, slot.name):
        return
    if follows:
        raise ExportCheckError(NAME, _missing(exported, slot, None))
    exported.doubtful.add(slot.name)
    exported.warn(
        f"{NAME}: {slot.name!r} has no influence in the exported model, and the model was not run "
        "to see whether it should have any."
    )


def _missing(exported: Exported, slot: Slot, changes: Changes | None) -> str:
    return (
        f"the result in PyTorch depends on {slot.name!r}, but the exported model has no such "
        f"input: {_told(exported, slot, changes)}"
    )


def _told(exported: Exported, slot: Slot, changes: Changes | None) -> str:
    """Where an input was lost, and what to do about it."""
    by_op = "" if slot.number is not None else _op_rules.where_lost(exported, slot.name)
    if by_op:
        return by_op
    return f"the value of the example was built in. {_advice_for(exported, slot, changes)}"


def _advice_for(exported: Exported, slot: Slot, changes: Changes | None) -> str:
    """What to do about an input that was built in."""
    if slot.number is not None:
        return (
            f"forward computes with {slot.parameter!r} in Python. If it is meant to be fixed, say "
            f"so: constants=[{slot.parameter!r}]."
        )
    reads = "reads it into Python: .item(), int(), float(), .numpy(), an if, a Python loop"
    script = ", or torch.jit.script the module" if exported.exporter == "torchscript" else ""
    where = _advice.of_reads(exported, changes) or f"Look for the place where forward {reads}."
    return (
        f"{where} Compute with the tensor instead{script}. For an enlargement by a factor: "
        "myops.interpolate takes the factor as a tensor."
    )
