"""`scatter_reduce` with include_self=False, and means, in files of both exporters.

ONNX has neither. torch's older exporter refuses them, the newer one writes no mean.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from myops.onnx.symbolics import register

_OPSET = 18  # of "max" and "min" in ScatterElements
_NODES = {"sum": "add", "mean": "add", "prod": "mul", "amax": "max", "amin": "min"}


@contextlib.contextmanager
def registered() -> Iterator[None]:
    """In this context, both exporters write it so, unless a user has registered it."""
    with register.registered_for_now({"aten::scatter_reduce.two": _write}, _OPSET):
        yield


def _write(
    g: Any, x: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True
) -> Any:
    dtype, shape = g.dtype(x), g.shape(index)
    if dtype is None or not shape:
        g.refuse("the dtype and the number of axes of its arguments are not known here")
    if reduce == "mean" and dtype.kind in "iu":
        g.refuse("it is a mean of integers")
    axis = dim % len(shape)
    lengths = g.op("Shape", index)
    # PyTorch reads the part of src that has the lengths of index.
    src = g.op("Slice", src, g.constant(np.zeros(len(shape), np.int64)), lengths)

    def scattered(into: Any, values: Any, kind: str) -> Any:
        return g.op("ScatterElements", into, index, values, axis=axis, reduction=kind)

    if not include_self:
        neutral = g.constant(np.array([_neutral(reduce, dtype)], dtype))
        x = scattered(x, g.op("Expand", neutral, lengths), "none")
    made = scattered(x, src, _NODES[reduce])
    if reduce != "mean":
        return made
    one = g.constant(np.array([1], dtype))
    first = one if include_self else g.constant(np.array([0], dtype))
    counts = g.op("Expand", first, g.op("Shape", x))
    counts = scattered(counts, g.op("Expand", one, lengths), "add")
    return g.op("Div", made, g.op("Max", counts, one))


def _neutral(reduce: str, dtype: np.dtype) -> Any:
    if reduce in ("sum", "mean", "prod"):
        return 1 if reduce == "prod" else 0
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return limits.min if reduce == "amax" else limits.max
    return -np.inf if reduce == "amax" else np.inf
