"""`cumprod`, which torch's exporters cannot write, as volume rendering (NeRF) needs it."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx

from myops.onnx.symbolics import register
from myops.onnx.symbolics.in_float import reduced

_OPSET = 11
_NARROW = ("float16", "bfloat16")  # which PyTorch computes more exactly


@contextlib.contextmanager
def registered() -> Iterator[None]:
    """In this context, both exporters write it so, unless a user has registered it."""
    with register.registered_for_now({"aten::cumprod": _write}, _OPSET):
        yield


def _write(g: Any, x: Any, dim: int, *, dtype: Any = None) -> Any:
    shape, given = g.shape(x), g.dtype(x)
    if shape is None or given is None:
        g.refuse("the dtype and the number of axes of its input are not known here")
    if dtype is not None:
        result = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(dtype))
    else:
        result = np.dtype(np.int64) if given.kind in "biu" else given
    if result.kind == "c":
        g.refuse("its elements are complex numbers")
    used = np.dtype(np.float32) if result.name in _NARROW else result
    x = x if given == used else _cast(g, x, used)
    if shape:
        axis, one = dim % len(shape), g.constant(np.array(1, used))
        length = shape[axis]
        if isinstance(length, int):
            x = _doubled(g, x, one, axis, len(shape), length)
        else:
            x = _of_any_length(g, x, one, axis, len(shape))
    return x if used == result else _cast(g, x, result)


def _doubled(g: Any, x: Any, one: Any, axis: int, rank: int, length: int) -> Any:
    """Products of 1, 2, 4, ... elements, each of two products of half as many."""
    shift = 1
    while shift < length:
        pads = np.zeros((2, rank), np.int64)
        pads[:, axis] = shift, -shift
        x = g.op("Mul", x, g.op("Pad", x, g.constant(pads.ravel()), one))
        shift *= 2
    return x


def _of_any_length(g: Any, x: Any, one: Any, axis: int, rank: int) -> Any:
    """From a square matrix of the elements that belong to each product."""
    vector = functools.partial(np.array, dtype=np.int64)
    order = [*(place for place in range(rank) if place != axis), axis]
    x = g.op("Transpose", x, perm=order)
    length = g.op("Gather", g.op("Shape", x), g.constant(vector(rank - 1)))
    places = g.op("Range", g.constant(vector(0)), length, g.constant(vector(1)))
    column = g.op("Reshape", places, g.constant(vector([-1, 1])))
    rows = g.op("Reshape", x, g.constant(vector([0] * (rank - 1) + [1, -1])))
    rows = g.op("Where", g.op("Greater", places, column), one, rows)
    made = g.op("Reshape", reduced(g, "ReduceProd", rows, rank, 18), g.op("Shape", x))
    return g.op("Transpose", made, perm=[int(place) for place in np.argsort(order)])


def _cast(g: Any, value: Any, dtype: np.dtype) -> Any:
    return g.op("Cast", value, to=onnx.helper.np_dtype_to_tensor_dtype(dtype))
