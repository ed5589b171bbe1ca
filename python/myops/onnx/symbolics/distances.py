"""`cdist`: distances between all rows of two matrices.

torch's older exporter adds 1e-6 to each difference and writes only p = 2 rightly, the newer one has
no translation.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from myops.onnx.symbolics import register
from myops.onnx.symbolics.in_float import in_float, reduced

_OPSET = 13  # of Unsqueeze with axes as input


@contextlib.contextmanager
def registered() -> Iterator[None]:
    """In this context, both exporters write it so, unless a user has registered it."""
    with register.registered_for_now({"aten::cdist": _write}, _OPSET):
        yield


def _write(g: Any, x1: Any, x2: Any, p: float = 2.0, compute_mode: Any = None) -> Any:
    if not isinstance(p, (int, float)):
        g.refuse("p is computed in forward")
    return in_float(g, x1, x2, function=functools.partial(_distances, p=float(p)))


def _distances(g: Any, constant: Callable[..., Any], x1: Any, x2: Any, p: float) -> Any:
    rows = g.op("Unsqueeze", x1, g.constant(np.array([-2], np.int64)))
    columns = g.op("Unsqueeze", x2, g.constant(np.array([-3], np.int64)))
    difference = g.op("Sub", rows, columns)
    if p == 2:
        return reduced(g, "ReduceL2", difference, -1, 18, 0)
    length = g.op("Abs", difference)
    if p == math.inf:
        return reduced(g, "ReduceMax", length, -1, 18, 0)
    if p == 0:
        length = g.op("Sign", length)
    elif p != 1:
        length = g.op("Pow", length, constant(p))
    sums = reduced(g, "ReduceSum", length, -1, 13, 0)
    return sums if p in (0, 1) else g.op("Pow", sums, constant(1 / p))
