"""Keeps all bits of the Python numbers in a float64 model.

torch's newer exporter writes a Python number as a float32 constant and a Cast to the requested
dtype, so that the 0.1 in `x * 0.1` is 0.10000000149 in a model of float64.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch.utils import _pytree as pytree

from myops.onnx.exporting import float_lengths

_CASTS = ("Cast", "CastLike")


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """In this context, torch's exporter restores the numbers before its optimizer folds the
    casts."""
    optimize = torch.onnx.ONNXProgram.optimize

    def restoring(program: Any) -> None:
        restore(program)
        optimize(program)

    with mock.patch.object(torch.onnx.ONNXProgram, "optimize", restoring):
        yield


def restore(program: torch.onnx.ONNXProgram) -> None:
    """Gives each cast of a rounded number the number itself, in a model of float64."""
    float_lengths.widen(program)
    exported = program.exported_program
    numbers = _numbers(exported) if exported is not None and _has_doubles(exported) else {}
    if not numbers:
        return
    import onnx_ir as ir

    for node in ir.traversal.RecursiveGraphIterator(program.model.graph):
        constant = node.inputs[0] if node.domain == "" and node.op_type in _CASTS else None
        tensor = ir.convenience.get_const_tensor(constant) if constant is not None else None
        if tensor is None or tensor.dtype != ir.DataType.FLOAT:
            continue
        rounded = tensor.numpy()
        exact = [numbers.get(item, float(item)) for item in rounded.flat]
        if exact != [float(item) for item in rounded.flat]:
            value = ir.tensor(np.array(exact, np.float64).reshape(rounded.shape))
            wide = ir.node("Constant", [], {"value": value})
            assert node.graph is not None
            node.graph.insert_before(node, wide)
            node.replace_input_with(0, wide.outputs[0])


def _has_doubles(exported: torch.export.ExportedProgram) -> bool:
    values = [node.meta.get("val") for node in exported.graph.nodes]
    return any(
        isinstance(item, torch.Tensor) and item.dtype in (torch.float64, torch.complex128)
        for item in pytree.tree_leaves(values)
    )


def _numbers(exported: torch.export.ExportedProgram) -> dict[Any, float]:
    """The program's numbers that float32 cannot represent, by their rounded value in float32."""
    found: dict[Any, float] = {}
    ambiguous: set[Any] = set()
    for module in exported.graph_module.modules():
        for node in getattr(getattr(module, "graph", None), "nodes", ()):
            for item in pytree.tree_leaves((node.args, node.kwargs)):
                if isinstance(item, float):
                    with np.errstate(over="ignore"):
                        rounded = np.float32(item)
                    if rounded in found and found[rounded] != item:
                        ambiguous.add(rounded)
                    found[rounded] = item
    return {key: item for key, item in found.items() if key not in ambiguous and float(key) != item}
