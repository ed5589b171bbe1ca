"""`atan2`, at angles of half a turn and at the origin.

torch's newer exporter gives -pi where y is 0 and x is negative, and its older one gives NaN where
both are 0. Signs of zeros count, as in torch: y is -0.0 after a change of sign, for example.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import torch

from myops.onnx.symbolics import register

_OPSET = 11  # of Equal for floats


@contextlib.contextmanager
def registered() -> Iterator[None]:
    """In this context, both exporters write atan2 so, unless a user has registered it."""
    with register.registered_for_now({"aten::atan2": _write}, _OPSET):
        yield


def _write(g: Any, y: Any, x: Any) -> Any:
    known = [dtype for dtype in (g.dtype(y), g.dtype(x)) if dtype is not None]
    floats = [dtype for dtype in known if dtype.kind not in "biu"]
    dtype = np.result_type(*floats) if floats else np.dtype(str(torch.get_default_dtype())[6:])
    element = onnx.helper.np_dtype_to_tensor_dtype(dtype)
    y, x = (item if g.dtype(item) == dtype else g.op("Cast", item, to=element) for item in (y, x))
    zero, one, pi = (g.constant(np.array(number, dtype)) for number in (0, 1, np.pi))

    def is_negative(item: Any) -> Any:
        of_zero = g.op("Less", g.op("Div", one, item), zero)
        return g.op("Or", g.op("Less", item, zero), of_zero)

    origin = g.op("And", g.op("Equal", y, zero), g.op("Equal", x, zero))
    right = g.op("Where", origin, y, g.op("Atan", g.op("Div", y, x)))
    turned = g.op("Where", is_negative(y), g.op("Sub", right, pi), g.op("Add", right, pi))
    return g.op("Where", is_negative(x), turned, right)
