"""Factors made of lengths while torch.jit.trace records: in float64, as Python computes them.

In a trace every length is a tensor of rank 0, so that `64 / h` is computed in float32. Where the
result is a factor of an axis, this can make the axis one element shorter than in the eager model.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from myops._torch.private_names import private, tracing, untraced

_value_of = private("_get_value_trace")
_set_value = private("_set_value_trace")

_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "aten::mul": operator.mul,
    "aten::add": operator.add,
    "aten::sub": operator.sub,
    "aten::rsub": lambda a, b: b - a,
    "aten::div": operator.truediv,
}
_UNARY: dict[str, Callable[[Any], Any]] = {
    "aten::reciprocal": lambda a: 1 / a,
    "aten::neg": operator.neg,
}
_WHOLE = {"aten::floor_divide": operator.floordiv, "aten::remainder": operator.mod}


def exact(item: Any) -> Any:
    """A factor, or each of a list, again in float64, if it is a float32 number that the trace
    computes from lengths and Python numbers only; everything else is returned as it is.

    Returns:
        For such a number, a Tensor[1]: the TorchScript exporter computes in float32 with those of
        rank 0.
    """
    if not tracing() or _value_of is None or _set_value is None:
        return item
    if isinstance(item, (list, tuple)):
        return [exact(one) for one in item]
    if not isinstance(item, Tensor) or item.dim() or item.dtype != torch.float32:
        return item
    found = _wide(_value_of(item))
    return item if found is None else found


def _wide(value: Any) -> Tensor | None:
    """A number of the trace in float64; None if it is not made of lengths and Python numbers."""
    number = _constant(value)
    if number is not None:
        with untraced():
            return torch.tensor([number], dtype=torch.float64)
    whole = _integer(value)
    if whole is not None:
        with untraced():
            length = torch.tensor(whole)
        _set_value(length, value)
        return length.to(torch.float64).reshape(1)
    node = value.node()
    inputs = list(node.inputs())
    kind = node.kind()
    if kind in _UNARY:
        only = _wide(inputs[0])
        return None if only is None else _UNARY[kind](only)
    if kind == "aten::mul" and inputs[0].node().kind() == "aten::reciprocal":
        # `number / length`, of which torch makes a product; it rounds twice, the quotient once.
        inputs = [inputs[1], next(inputs[0].node().inputs())]
        kind = "aten::div"
    if kind in _BINARY and _is_plain(inputs):
        left, right = _wide(inputs[0]), _wide(inputs[1])
        return None if left is None or right is None else _BINARY[kind](left, right)
    return None


def _integer(value: Any) -> int | None:
    """The integer that the trace has for a length, or for what is computed from lengths."""
    number = _constant(value)
    if isinstance(number, int):
        return number
    node = value.node()
    inputs = list(node.inputs())
    kind = node.kind()
    if kind in ("prim::NumToTensor", "aten::Int"):
        return _integer(inputs[0])
    if kind == "aten::size" and len(inputs) == 2:
        axis, type_ = _constant(inputs[1]), inputs[0].type()
        lengths = type_.sizes() if isinstance(type_, torch._C.TensorType) else None
        return None if lengths is None or not isinstance(axis, int) else lengths[axis]
    operations = {**_BINARY, **_WHOLE}
    if kind in operations and kind != "aten::div" and _is_plain(inputs):
        left, right = _integer(inputs[0]), _integer(inputs[1])
        if left is not None and right is not None:
            whole: int = operations[kind](left, right)
            return whole
    return None


def _is_plain(inputs: list[Any]) -> bool:
    """Whether an operator has two inputs, and of `a + 2 * b` none but 1 as the number."""
    return len(inputs) == 2 or (len(inputs) == 3 and _constant(inputs[2]) == 1)


def _constant(value: Any) -> float | None:
    """A Python number; as an argument it can be a tensor. (One of float32 is the model's own.)"""
    node = value.node()
    found = value.toIValue() if node.kind() == "prim::Constant" else None
    if isinstance(found, Tensor) and not found.dim() and found.dtype in (torch.float64,
                                                                        torch.int64):  # fmt: skip
        with untraced():
            found = found.item()
    number: float | None = found if type(found) in (int, float) else None
    return number
