"""`atan2`, at angles of half a turn, at the origin and at infinity, and `signbit`.

torch's newer exporter gives -pi where y is 0 and x is negative, and its older one gives NaN where
both are 0. Signs of zeros count, as in torch: y is -0.0 after a change of sign, for example.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import torch

from myops.onnx.symbolics import register

_OPSET = 11  # of Equal for floats


@contextlib.contextmanager
def registered() -> Iterator[None]:
    """In this context, both exporters write these so, unless a user has registered them."""
    functions: dict[str, Callable[..., Any]] = {"aten::atan2": _write, "aten::signbit": _signbit}
    with register.registered_for_now(functions, _OPSET):
        yield


def _write(g: Any, y: Any, x: Any) -> Any:
    known = [dtype for dtype in (g.dtype(y), g.dtype(x)) if dtype is not None]
    floats = [dtype for dtype in known if dtype.kind not in "biu"]
    dtype = np.result_type(*floats) if floats else np.dtype(str(torch.get_default_dtype())[6:])
    element = onnx.helper.np_dtype_to_tensor_dtype(dtype)
    y, x = (item if g.dtype(item) == dtype else g.op("Cast", item, to=element) for item in (y, x))
    zero, pi, infinity = (g.constant(np.array(number, dtype)) for number in (0, np.pi, np.inf))
    signs = g.op("Mul", g.op("Sign", y), g.op("Sign", x))
    infinite = (g.op("Equal", g.op("Abs", item), infinity) for item in (y, x))
    ratio = g.op("Where", g.op("And", *infinite), signs, g.op("Div", y, x))
    origin = g.op("And", g.op("Equal", y, zero), g.op("Equal", x, zero))
    right = g.op("Where", origin, y, g.op("Atan", ratio))
    below, left = (_is_negative(g, item, dtype) for item in (y, x))
    turned = g.op("Where", below, g.op("Sub", right, pi), g.op("Add", right, pi))
    return g.op("Where", left, turned, right)


def _is_negative(g: Any, item: Any, dtype: np.dtype) -> Any:
    zero, one = (g.constant(np.array(number, dtype)) for number in (0, 1))
    of_zero = g.op("Less", g.op("Div", one, item), zero)
    return g.op("Or", g.op("Less", item, zero), of_zero)


def _signbit(g: Any, x: Any) -> Any:
    dtype = g.dtype(x)
    if dtype is None or dtype.kind in "bu":
        x, dtype = g.op("Cast", x, to=onnx.TensorProto.FLOAT), np.dtype(np.float32)
    if dtype.kind == "i":
        return g.op("Less", x, g.constant(np.array(0, dtype)))
    return _is_negative(g, x, dtype)
