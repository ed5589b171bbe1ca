"""The checks of `myops.onnx.export` as verdicts of the matrix: frozen inputs, lost nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import onnx

from myops.onnx import guards
from myops.onnx.exporting import dynamic_axes
from myops.onnx.exporting.inputs import Inputs
from myops.onnx.guards import _difference

if TYPE_CHECKING:
    from myops.onnx.matrix.measure import Prepared

# The matrix itself shows the opset of a file.
_CHECKS = guards.chosen("opset")


def found(
    prepared: Prepared, model: onnx.ModelProto, program: Any, exporter: str, opset: int,
    tolerance: float | None,
) -> guards.ExportCheckError | None:  # fmt: skip
    """The error that the checks of `myops.onnx.export` find in a file; None if they pass.

    Args:
        program: The program that torch.export made of the model, if it is known.
        tolerance: As for `opset_matrix`.
    """
    case = prepared.case
    inputs = Inputs(
        prepared.module, prepared.args, prepared.kwargs, prepared.names, list(case.constants)
    )
    _build_in_flags(prepared, inputs)
    exported = guards.Exported(
        prepared.module, inputs, model, model, exporter, opset, program,
        dynamic=dynamic_axes.asked(inputs, prepared.axes, None),
    )  # fmt: skip
    with _difference.tolerance(tolerance):
        try:
            guards.run(exported, _CHECKS)
        except guards.ExportCheckError as error:
            return error
    return None


def _build_in_flags(prepared: Prepared, inputs: Inputs) -> None:
    """Makes bools on which forward branches constants: they select a branch of the model and cannot
    be inputs."""
    for slot in [item for item in inputs.slots if item.number is bool]:
        if guards.is_read(prepared.module, inputs, slot):
            inputs.build_in([slot.parameter])
