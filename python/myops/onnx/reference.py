"""The nodes of op libraries for onnx's own evaluator, `onnx.reference`."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx.reference.op_run import OpRun

from myops import _description, _libraries
from myops._description import OpInfo
from myops.onnx.schema import schema_for


def reference_ops() -> list[type[OpRun]]:
    """Every node that this process knows, for `onnx.reference.ReferenceEvaluator`.

    Ours, those of other packages' op libraries, and prototypes. They run through NumPy on the
    kernels themselves: equal bits, and no ONNX Runtime. A model with function bodies runs without
    them too, within rounding.

    Returns:
        Classes for the argument `new_ops`.

    Example:
        >>> evaluator = onnx.reference.ReferenceEvaluator(
        ...     "model.onnx", new_ops=myops.onnx.reference_ops())
        >>> (y,) = evaluator.run(None, {"x": x})
    """
    return [_reference_op(info) for info in _libraries.nodes()]


def _reference_op(info: OpInfo) -> type[OpRun]:
    def run(self: OpRun, *inputs: Any, **attributes: Any) -> tuple[Any, ...]:
        padded = [*inputs, *[None] * (len(info.inputs) - len(inputs))]
        results = _description.call(info, info.nested(padded), attributes)
        pairs = zip(info.outputs, results, strict=True)
        # The evaluator has no word for an output that is left out.
        return tuple(
            np.zeros(0, info.types[o.type][0]) if item is None else item for o, item in pairs
        )

    members = {"op_domain": info.domain, "op_schema": schema_for(info), "_run": run}
    return type(info.onnx_type, (OpRun,), members)
