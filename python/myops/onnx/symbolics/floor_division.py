"""`a // b`, rounded down as in PyTorch, and `a % b`.

torch's older exporter rounds towards zero, which makes -(-h // 14) the same as h // 14. The newer
one first rounds the quotient: 1.0 // 0.1 is 9, as in Python, but 1.0 / 0.1 rounds to 10. Both do so
for the remainder of floats: 1.0 % 0.1 is nearly 0.1, and not 0.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import torch

from myops.onnx.symbolics import register
from myops.onnx.symbolics.non_negative import never_negative

_OPSET = 10  # of Mod


@contextlib.contextmanager
def registered() -> Iterator[None]:
    """In this context, both exporters write these so, unless a user has registered them."""
    functions = {"aten::floor_divide": _write, "aten::remainder": _remainder}
    with register.registered_for_now(functions, _OPSET):
        yield


def _write(g: Any, a: Any, b: Any) -> Any:
    dtype = _dtype(g, a, b)
    if dtype.kind == "b":
        g.refuse("its arguments are bool")
    if _is_floating(dtype):
        return _of_floats(g, _value(g, a, dtype), _value(g, b, dtype), b, dtype)
    plain = never_negative(a) and never_negative(b)
    a, b = _value(g, a, dtype), _value(g, b, dtype)
    # The remainder has the sign of b; what is left is a multiple of b.
    return g.op("Div", a if plain else g.op("Sub", a, g.op("Mod", a, b)), b)


def _remainder(g: Any, a: Any, b: Any) -> Any:
    dtype = _dtype(g, a, b)
    if dtype.kind == "b":
        g.refuse("its arguments are bool")
    a, b = _value(g, a, dtype), _value(g, b, dtype)
    if not _is_floating(dtype):
        return g.op("Mod", a, b)
    zero = g.constant(np.array(0, dtype))
    rest = g.op("Mod", a, b, fmod=1)  # exact, with the sign of a
    other_sign = g.op("Xor", g.op("Less", b, zero), g.op("Less", rest, zero))
    wrong = g.op("And", other_sign, g.op("Not", g.op("Equal", rest, zero)))
    return g.op("Where", wrong, g.op("Add", rest, b), rest)


def _dtype(g: Any, a: Any, b: Any) -> np.dtype:
    """The dtype in which torch computes. The dtype of a number matters only if the number is a
    float and the tensors are integers."""
    tensors = [item for item in (a, b) if not _is_number(g, item)]
    known = [g.dtype(item) for item in tensors or (a, b) if not isinstance(item, (int, float))]
    found = [item for item in known if item is not None] or [np.dtype(np.int64)]
    dtype = np.result_type(*([item for item in found if _is_floating(item)] or found))
    if not _is_floating(dtype) and any(_is_float(g, item) for item in (a, b)):
        return np.dtype(str(torch.get_default_dtype()).removeprefix("torch."))
    return dtype


def _is_number(g: Any, item: Any) -> bool:
    """Numbers in a trace are tensors without axes, and so are lengths."""
    return isinstance(item, (int, float)) or g.shape(item) == []


def _is_float(g: Any, item: Any) -> bool:
    if isinstance(item, (int, float)):
        return isinstance(item, float)
    dtype = g.dtype(item)
    return dtype is not None and _is_floating(dtype)


def _is_floating(dtype: np.dtype) -> bool:
    return dtype.kind not in "biu"  # bfloat16 is not of the kind "f"


def _value(g: Any, item: Any, dtype: np.dtype) -> Any:
    if isinstance(item, (int, float)):
        return g.constant(np.array(item, dtype))
    if g.dtype(item) == dtype:
        return item
    return g.op("Cast", item, to=onnx.helper.np_dtype_to_tensor_dtype(dtype))


def _of_floats(g: Any, a: Any, b: Any, number: Any, dtype: np.dtype) -> Any:
    """Computes it as torch does (c10/util/generic_math.h, div_floor_floating)."""
    zero, half, one = (g.constant(np.array(item, dtype)) for item in (0, 0.5, 1))
    remainder = g.op("Mod", a, b, fmod=1)
    quotient = g.op("Div", g.op("Sub", a, remainder), b)
    other_sign = g.op("Xor", g.op("Less", b, zero), g.op("Less", remainder, zero))
    exact = g.op("Equal", remainder, zero)
    down = g.op("And", other_sign, g.op("Not", exact))
    quotient = g.op("Where", down, g.op("Sub", quotient, one), quotient)
    result = g.op("Floor", quotient)
    short = g.op("Less", half, g.op("Sub", quotient, result))
    result = g.op("Where", short, g.op("Add", result, one), result)
    if isinstance(number, (int, float)) and number:
        return result
    return g.op("Where", g.op("Equal", b, zero), g.op("Div", a, b), result)
