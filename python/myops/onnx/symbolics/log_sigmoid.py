"""`logsigmoid` of numbers far below 0, where torch's exporters write the logarithm of 0.

sigmoid(x) rounds to 0 below about -18 in ONNX Runtime, and its logarithm is -inf.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from myops.onnx.symbolics import register

_OPSET = 8  # of Min for other floats than float32


@contextlib.contextmanager
def registered() -> Iterator[None]:
    """In this context, both exporters write logsigmoid so, unless a user has registered it."""
    with register.registered_for_now({"aten::log_sigmoid": _write}, _OPSET):
        yield


def _write(g: Any, x: Any) -> Any:
    dtype = g.dtype(x)
    if dtype is None or dtype in (np.float32, np.float16):
        return g.op("Neg", g.op("Softplus", g.op("Neg", x)))
    # ONNX Runtime has no Softplus of float64, and ONNX none of bfloat16 before opset 22.
    zero, one = (g.constant(np.array(number, dtype)) for number in (0, 1))
    small = g.op("Exp", g.op("Neg", g.op("Abs", x)))
    return g.op("Sub", g.op("Min", x, zero), g.op("Log", g.op("Add", one, small)))
