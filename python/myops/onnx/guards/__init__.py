"""The checks after an export, each in the file of its name.

opset           the file's opset is the requested one
lost_node       every custom operator that the model calls is in the graph
frozen_input    every input that changes the result in PyTorch changes it in the file
numbers         ONNX Runtime computes what PyTorch computes
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from myops._names import choose
from myops.onnx.exporting.inputs import Inputs, Slot
from myops.onnx.guards import (
    _difference,
    frozen_input,
    lost_node,
    numbers,
    opset,
    unused_inputs,
)
from myops.onnx.guards._calls import CallRecorder, Reads
from myops.onnx.guards._errors import ExportCheckError, ExportCheckWarning, said
from myops.onnx.guards._exported import Exported, runnable, unchanged
from myops.onnx.guards._origin import of_failure as origin_of_failure

__all__ = [
    "CHECKS",
    "ExportCheckError",
    "ExportCheckWarning",
    "Exported",
    "chosen",
    "is_read",
    "origin_of_failure",
    "run",
]

CHECKS = {item.NAME: item.check for item in (opset, lost_node, frozen_input, numbers)}


def chosen(skip: str | Sequence[str]) -> list[str]:
    """The checks to make, without those that are skipped; "all" skips all."""
    left_out = [skip] if isinstance(skip, str) else list(skip)
    for name in left_out:
        choose(name, [*CHECKS, "all"], "export: skip_checks: there is")
    return [name for name in CHECKS if name not in left_out and "all" not in left_out]


def run(exported: Exported, checks: Sequence[str]) -> None:
    """Makes the checks, the fast ones first.

    Raises:
        ExportCheckError: The first that found something wrong.
    """
    if set(checks) - {"opset"}:
        checks = _runnable(exported, checks)
        exported.check_changes(refuse_weights="numbers" in checks)
    with _difference.of_narrowest(exported.calls.floats):
        for name in checks:
            CHECKS[name](exported)
    unused_inputs.warn(exported, checks)


def _runnable(exported: Exported, checks: Sequence[str]) -> Sequence[str]:
    """Runs the model in PyTorch; returns the checks that are possible then."""
    if "lost_node" in checks:
        try:
            exported.prepare(CallRecorder())
            return checks
        except Exception as error:  # operators that take functions, and cannot be observed
            exported.warn(
                "lost_node: PyTorch does not run the model while its operators are observed, so "
                f"it was not checked whether all custom operators are in the file: {said(error)}."
            )
            checks = [name for name in checks if name != "lost_node"]
    if not set(checks) - {"opset"}:
        return checks
    try:
        exported.prepare(None)
    except Exception as error:  # whatever the model itself raises
        exported.uncompared = "PyTorch does not run the model"
        exported.warn(
            f"PyTorch does not run the model, so only the opset was checked: {said(error)}."
        )
        return [name for name in checks if name == "opset"]
    return checks


def is_read(model: Any, inputs: Inputs, slot: Slot) -> bool:
    """Whether forward reads the number of an input into Python, if it gets a tensor."""
    reads = Reads(inputs.tensor(slot))
    args, kwargs = inputs.call(as_tensor={slot.name: reads.tensor})
    try:
        with torch.no_grad(), unchanged(runnable(model)), reads:
            runnable(model)(*args, **kwargs)
    except Exception:  # it does not accept a tensor
        return True
    return reads.found
