"""The checks of `myops.onnx.export` as verdicts of the matrix: what froze, what was lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import onnx

from myops.onnx import guards
from myops.onnx.exporting import dynamic_axes
from myops.onnx.exporting.inputs import Inputs
from myops.onnx.guards import _difference

if TYPE_CHECKING:
    from myops.onnx.matrix.measure import Prepared

# What the matrix itself says of a file: its opset.
_CHECKS = guards.chosen("opset")


def found(
    prepared: Prepared, model: onnx.ModelProto, program: Any, exporter: str, opset: int,
    tolerance: float | None,
) -> guards.ExportCheckError | None:  # fmt: skip
    """What the checks of `myops.onnx.export` find wrong with a file; None when they are content.

    Args:
        program: What torch.export made of the model, where that is known.
        tolerance: What was given to `opset_matrix`.
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
    """A bool that forward branches on chooses a model; it is no input of one."""
    for slot in [item for item in inputs.slots if item.number is bool]:
        if guards.is_read(prepared.module, inputs, slot):
            inputs.build_in([slot.parameter])
