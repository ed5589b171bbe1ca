"""The nodes of op libraries for onnx's own evaluator, `onnx.reference`."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx.reference.op_run import OpRun

from myops import _description, _dtypes, _libraries, _numpy_call
from myops._description import OpInfo
from myops.onnx.schema import schema_for


def reference_ops() -> list[type[OpRun]]:
    """Every node that this process knows, for `onnx.reference.ReferenceEvaluator`.

    These are our nodes, those of other packages' op libraries, and prototypes. They call the same
    kernels through NumPy: the bits are equal, and ONNX Runtime is not needed. A model with function
    bodies runs without these classes too, with differences of rounding.

    Returns:
        Classes for the argument `new_ops`.

    Example:
        >>> evaluator = onnx.reference.ReferenceEvaluator(
        ...     "model.onnx", new_ops=myops.onnx.reference_ops())
        >>> (y,) = evaluator.run(None, {"x": x})
    """
    newest = {(info.domain, info.onnx_type): info for info in _libraries.nodes()}
    return [_reference_op(info) for info in newest.values()]


def _reference_op(info: OpInfo) -> type[OpRun]:
    def run(self: OpRun, *inputs: Any, **attributes: Any) -> tuple[Any, ...]:
        meant = _libraries.op_of(self.onnx_node)
        if meant is None:
            raise ValueError(
                f"{info.name}: {_description.VERSION}: got a node of version "
                f"{_libraries.stated_version(self.onnx_node)} of {info.onnx_type}, expected one "
                "that this process has"
            )
        padded = [*inputs, *[None] * (len(meant.inputs) - len(inputs))]
        known = [item.name for item in meant.attributes]
        given = {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in attributes.items()
            if name in known and value is not None
        }
        results = _numpy_call.call(meant, meant.nested(padded), given)
        # The evaluator cannot express that an output is left out.
        return tuple(
            np.zeros(0, _dtypes.numpy_dtype(meant.types[output.type][0])) if item is None else item
            for output, item in zip(meant.outputs, results, strict=True)
        )

    members = {"op_domain": info.domain, "op_schema": schema_for(info), "_run": run}
    return type(info.onnx_type, (OpRun,), members)
