"""Arithmetic with dynamic lengths, where torch's newer exporter fails or is wrong.

`places % width`, where width is such a length, is `aten::remainder.Scalar`, and torch's translation
of it fails on a value of the graph. The overload for two tensors accepts such a value.

`-(-length // 4)` divides a negative number; torch's translation of `//` for lengths rounds towards
zero.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import torch

from myops.onnx.symbolics import registered_dynamo

# By name: the overload with a number, the overload with tensors, and the index of the number.
_PAIRS = [
    ("remainder", "Scalar", "Tensor", 1),
    ("pow", "Tensor_Scalar", "Tensor_Tensor", 1),
    ("bitwise_and", "Scalar", "Tensor", 1),
    ("bitwise_or", "Scalar", "Tensor", 1),
    ("bitwise_xor", "Scalar", "Tensor", 1),
]
# Nodes that are not negative where their first input is not, or where no input is.
_FIRST = ("Gather", "Slice", "Squeeze", "Unsqueeze", "Reshape", "Cast", "Identity")
_ALL = ("Add", "Mul", "Div", "Max", "Concat")


def translations() -> dict[Any, Callable[..., Any]]:
    """Translations for the exporter based on torch.export, which call torch's own functions."""
    found: dict[Any, Callable[..., Any]] = {operator.floordiv: _rounded_down}
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


def _rounded_down(length: Any, divisor: Any) -> Any:
    import onnxscript

    like: Any = onnxscript.opset18
    if _never_negative(length, {}) and _never_negative(divisor, {}):
        return like.Div(length, divisor)
    # The remainder has the sign of the divisor; what is left is a multiple of it.
    return like.Div(like.Sub(length, like.Mod(length, divisor)), divisor)


def _never_negative(value: Any, known: dict[int, bool]) -> bool:
    """Whether a number is at least 0, or computed from lengths without a minus."""
    import onnx_ir as ir

    if isinstance(value, int):
        return value >= 0
    if id(value) not in known:
        known[id(value)] = False
        node = value.producer()
        constant = ir.convenience.get_const_tensor(value)
        if constant is not None:
            known[id(value)] = bool((constant.numpy() >= 0).all())
        elif node is not None and node.domain == "":
            inputs = node.inputs[:1] if node.op_type in _FIRST else node.inputs
            known[id(value)] = node.op_type in ("Shape", "Size") or (
                node.op_type in (*_FIRST, *_ALL)
                and all(item is not None and _never_negative(item, known) for item in inputs)
            )
    return known[id(value)]
