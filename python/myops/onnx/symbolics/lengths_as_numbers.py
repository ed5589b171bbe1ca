"""Operators with a number that torch's newer exporter translates only where the number is constant.

`places % width`, where width is a length that changes, is `aten::remainder.Scalar`, and torch's
translation of it fails on a value of the graph. The overload for two tensors takes such a value.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from myops.onnx.symbolics import registered_dynamo

# By name: the overload with a number, the one with tensors, which argument the number is.
_PAIRS = [
    ("remainder", "Scalar", "Tensor", 1),
    ("pow", "Tensor_Scalar", "Tensor_Tensor", 1),
    ("bitwise_and", "Scalar", "Tensor", 1),
    ("bitwise_or", "Scalar", "Tensor", 1),
    ("bitwise_xor", "Scalar", "Tensor", 1),
]


def translations() -> dict[Any, Callable[..., Any]]:
    """For the exporter on torch.export; torch's own functions do the work."""
    found: dict[Any, Callable[..., Any]] = {}
    for name, scalar, tensor, place in _PAIRS:
        packet = getattr(torch.ops.aten, name)
        by_number, by_tensor = map(_torchs, (getattr(packet, scalar), getattr(packet, tensor)))
        if by_number is not None and by_tensor is not None:
            found[getattr(packet, scalar)] = functools.partial(_chosen, by_number, by_tensor, place)
    return found


def _torchs(overload: Any) -> Any:
    """torch's function for an overload; None in a release that has none."""
    from torch.onnx._internal.exporter import _registration

    known = registered_dynamo.torchs_registry(_registration).get_decomps(overload)
    return next((meta.onnx_function for meta in known if not meta.is_custom), None)


def _chosen(by_number: Any, by_tensor: Any, place: int, *arguments: Any) -> Any:
    import onnx_ir as ir
    import onnxscript

    if not isinstance(arguments[place], ir.Value):
        return by_number(*arguments)
    like: Any = onnxscript.opset18
    values = list(arguments)
    values[place] = like.CastLike(values[place], values[1 - place])
    return by_tensor(*values)
