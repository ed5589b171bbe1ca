"""Adaptive pooling of dynamic lengths, which torch's exporters refuse or turn into constants.

Element i of `out` along an axis of `length` is the mean, or the largest, of elements
floor(i * length / out) to ceil((i + 1) * length / out) - 1 (torch/nn/functional.py,
adaptive_avg_pool2d). Windows overlap and differ in size, so AveragePool cannot express it: here
each window is gathered, and summed with a mask.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx

from myops.onnx.symbolics import register

# By how many of the last axes are pooled; torch.export keeps the names with an underscore.
_OPERATORS = {
    "adaptive_avg_pool1d": 1, "adaptive_avg_pool2d": 2, "adaptive_avg_pool3d": 3,
    "_adaptive_avg_pool2d": 2, "_adaptive_avg_pool3d": 3,
}  # fmt: skip
_INT64 = onnx.TensorProto.INT64


@contextlib.contextmanager
def registered() -> Iterator[None]:
    """In this context, both exporters write adaptive pooling, unless a user has registered it."""
    functions = {f"aten::{name}": functools.partial(_write, n) for name, n in _OPERATORS.items()}
    for count in (1, 2, 3):
        functions[f"aten::adaptive_max_pool{count}d"] = functools.partial(_write_max, count)
    with register.registered_for_now(functions, 11):
        yield


def _write(count: int, g: Any, x: Any, output_size: Any) -> Any:
    shape, dtype, output_size = _known(count, g, x, output_size)
    batched = len(shape) == count + 2
    if batched and all(isinstance(out, int) and out == 1 for out in output_size):
        return g.op("GlobalAveragePool", x)
    steps = _even_steps(shape[-count:], output_size)
    if batched and steps is not None:
        return g.op("AveragePool", x, kernel_shape=steps, strides=steps)
    elements = None
    for axis, out in zip(range(-count, 0), output_size, strict=True):
        x, found = _summed(g, x, axis, len(shape), out, dtype)
        elements = found if elements is None else g.op("Mul", elements, found)
    kind = onnx.helper.np_dtype_to_tensor_dtype(dtype)
    return g.op("Div", x, g.op("Cast", elements, to=kind))


def _write_max(count: int, g: Any, x: Any, output_size: Any) -> tuple[Any, Any]:
    """The largest element of each window, and its flat index in the pooled axes of the input."""
    shape, dtype, output_size = _known(count, g, x, output_size)
    if dtype.kind != "f":
        g.refuse(f"its input is {dtype}")
    rank = len(shape)
    lead = rank - count
    if all(isinstance(out, int) and out == 1 for out in output_size):
        best = g.op("ArgMax", _flat(g, x, lead), axis=lead, keepdims=1)
        return _largest(g, x, lead, rank), _unsqueezed(g, best, list(range(lead + 1, rank)))
    steps = _even_steps(shape[-count:], output_size)
    if lead == 2 and steps is not None:
        values, places = g.op("MaxPool", x, kernel_shape=steps, strides=steps, outputs=2)
        plane = g.constant(np.array(math.prod(shape[-count:]), np.int64))
        return values, g.op("Mod", places, plane)  # ONNX counts through batch and channels too
    lengths = g.op("Shape", x)
    valid = place = None
    for number, out in enumerate(output_size):
        # The axes before this one have become two axes each: [out, elements].
        axis, behind = lead + 2 * number, count - 1 - number
        length = g.op("Gather", lengths, g.constant(np.array(lead + number, np.int64)))
        index, inside, _ = _windows(g, length, out)
        x = g.op("Gather", x, index, axis=axis)
        trailing = list(range(2, 2 + 2 * behind))
        index, inside = (_unsqueezed(g, item, trailing) for item in (index, inside))
        valid = inside if valid is None else g.op("And", valid, inside)
        place = index if place is None else g.op("Add", g.op("Mul", place, length), index)
    lowest = g.constant(np.array(-np.inf, dtype))
    outs, elements = list(range(lead, lead + 2 * count, 2)), list(range(lead + 1, rank + count, 2))
    order = [*range(lead), *outs, *elements]
    inner = [axis - lead for axis in order[lead:]]
    x = g.op("Transpose", g.op("Where", valid, x, lowest), perm=order)
    place = g.op("Transpose", place, perm=inner)
    x, place = _flat(g, x, rank), _flat(g, place, count)
    best = g.op("ArgMax", x, axis=rank, keepdims=1)  # NaN is not followed
    places = g.op("Expand", place, g.op("Shape", x))
    values, chosen = (g.op("GatherElements", item, best, axis=rank) for item in (x, places))
    return _squeezed(g, values, rank), _squeezed(g, chosen, rank)


def _largest(g: Any, x: Any, lead: int, rank: int) -> Any:
    if lead == 2:
        return g.op("GlobalMaxPool", x)
    axes = list(range(lead, rank))
    if g.opset >= 18:
        return g.op("ReduceMax", x, g.constant(np.array(axes, np.int64)), keepdims=1)
    return g.op("ReduceMax", x, axes=axes, keepdims=1)


def _known(count: int, g: Any, x: Any, output_size: Any) -> tuple[Any, Any, Any]:
    shape, dtype = g.shape(x), g.dtype(x)
    if shape is None or dtype is None:
        g.refuse("the dtype and the number of axes of its input are not known here")
    if not isinstance(output_size, (list, tuple)):
        output_size = [g.op("Gather", output_size, g.constant(np.int64(i))) for i in range(count)]
    return shape, dtype, output_size


def _flat(g: Any, value: Any, leading: int) -> Any:
    """All axes after the first ones as one."""
    return g.op("Reshape", value, g.constant(np.array([0] * leading + [-1], np.int64)))


def _squeezed(g: Any, value: Any, axis: int) -> Any:
    if g.opset >= 13:
        return g.op("Squeeze", value, g.constant(np.array([axis], np.int64)))
    return g.op("Squeeze", value, axes=[axis])


def _even_steps(lengths: Sequence[int | None], output_size: Sequence[Any]) -> list[int] | None:
    """The lengths of the windows, where all are equal and known."""
    found = []
    for length, out in zip(lengths, output_size, strict=True):
        if not isinstance(length, int) or not isinstance(out, int) or out < 1 or length % out:
            return None
        found.append(length // out)
    return found


def _summed(g: Any, x: Any, axis: int, rank: int, out: Any, dtype: Any) -> tuple[Any, Any]:
    """Sums of the windows along one of the last axes, and the number of elements of each.

    The numbers have the shape of a divisor: their axes are `axis` and those after it.
    """
    length = g.op("Gather", g.op("Shape", x), g.constant(np.array(rank + axis, np.int64)))
    index, inside, count = _windows(g, length, out)
    gathered = g.op("Gather", x, index, axis=rank + axis)
    behind = -axis - 1
    mask = _unsqueezed(g, inside, [2 + i for i in range(behind)])
    kept = g.op("Where", mask, gathered, g.constant(np.zeros((), dtype)))
    result = _sum(g, kept, rank + axis + 1)
    return result, _unsqueezed(g, count, [1 + i for i in range(behind)])


def _windows(g: Any, length: Any, out: Any) -> tuple[Any, Any, Any]:
    """The indices of the elements of the windows and which of them exist, both [out, longest], and
    the number of elements of each window [out]."""
    zero, one = (g.constant(np.array(value, np.int64)) for value in (0, 1))
    if isinstance(out, int):
        out = divisor = g.constant(np.array(out, np.int64))
    else:
        out = g.op("Cast", g.op("Reshape", out, g.constant(np.zeros(0, np.int64))), to=_INT64)
        divisor = g.op("Add", out, g.op("Cast", g.op("Equal", out, zero), to=_INT64))  # never 0
    windows = g.op("Range", zero, out, one)
    first = g.op("Div", g.op("Mul", windows, length), divisor)
    last = g.op("Mul", g.op("Add", windows, one), length)
    last = g.op("Div", g.op("Sub", g.op("Add", last, out), one), divisor)  # rounded up
    # A window has at most floor(length / out) + 2 elements.
    longest = g.op("Add", g.op("Div", length, divisor), g.constant(np.array(2, np.int64)))
    starts = _unsqueezed(g, first, [1])
    index = g.op("Add", starts, g.op("Range", zero, longest, one))
    inside = g.op("Less", index, _unsqueezed(g, last, [1]))
    return g.op("Where", inside, index, starts), inside, g.op("Sub", last, first)


def _unsqueezed(g: Any, value: Any, axes: list[int]) -> Any:
    if not axes:
        return value
    if g.opset >= 13:
        return g.op("Unsqueeze", value, g.constant(np.array(axes, np.int64)))
    return g.op("Unsqueeze", value, axes=axes)


def _sum(g: Any, value: Any, axis: int) -> Any:
    if g.opset >= 13:
        return g.op("ReduceSum", value, g.constant(np.array([axis], np.int64)), keepdims=0)
    return g.op("ReduceSum", value, axes=[axis], keepdims=0)
