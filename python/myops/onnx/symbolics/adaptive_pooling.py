"""Adaptive average pooling of lengths that change, which torch's exporters refuse or build in.

Element i of `out` along an axis of `length` is the mean of elements floor(i * length / out) to
ceil((i + 1) * length / out) - 1 (torch/nn/functional.py, adaptive_avg_pool2d). Windows overlap and
differ in size, so no AveragePool says it: here each window is gathered, and summed with a mask.
"""

from __future__ import annotations

import contextlib
import functools
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
    """Inside, both exporters write adaptive average pooling, unless somebody has registered it."""
    functions = {f"aten::{name}": functools.partial(_write, n) for name, n in _OPERATORS.items()}
    with register.registered_for_now(functions, 11):
        yield


def _write(count: int, g: Any, x: Any, output_size: Any) -> Any:
    shape, dtype = g.shape(x), g.dtype(x)
    if shape is None or dtype is None:
        g.refuse("the dtype and the number of axes of its input are not known here")
    if not isinstance(output_size, (list, tuple)):
        output_size = [g.op("Gather", output_size, g.constant(np.int64(i))) for i in range(count)]
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


def _even_steps(lengths: Sequence[int | None], output_size: Sequence[Any]) -> list[int] | None:
    """The lengths of the windows, where all are equal and known."""
    found = []
    for length, out in zip(lengths, output_size, strict=True):
        if not isinstance(length, int) or not isinstance(out, int) or out < 1 or length % out:
            return None
        found.append(length // out)
    return found


def _summed(g: Any, x: Any, axis: int, rank: int, out: Any, dtype: Any) -> tuple[Any, Any]:
    """Sums of the windows along one of the last axes, and how many elements each has.

    The latter has an axis for each that is not in front of `axis`, to divide by.
    """
    zero, one = (g.constant(np.array(value, np.int64)) for value in (0, 1))
    if isinstance(out, int):
        out = divisor = g.constant(np.array(out, np.int64))
    else:
        out = g.op("Cast", g.op("Reshape", out, g.constant(np.zeros(0, np.int64))), to=_INT64)
        divisor = g.op("Add", out, g.op("Cast", g.op("Equal", out, zero), to=_INT64))  # never 0
    length = g.op("Gather", g.op("Shape", x), g.constant(np.array(rank + axis, np.int64)))
    windows = g.op("Range", zero, out, one)
    first = g.op("Div", g.op("Mul", windows, length), divisor)
    last = g.op("Mul", g.op("Add", windows, one), length)
    last = g.op("Div", g.op("Sub", g.op("Add", last, out), one), divisor)  # rounded up
    # A window has at most floor(length / out) + 2 elements.
    longest = g.op("Add", g.op("Div", length, divisor), g.constant(np.array(2, np.int64)))
    starts = _unsqueezed(g, first, [1])
    index = g.op("Add", starts, g.op("Range", zero, longest, one))  # [out, longest]
    inside = g.op("Less", index, _unsqueezed(g, last, [1]))
    gathered = g.op("Gather", x, g.op("Where", inside, index, starts), axis=rank + axis)
    behind = -axis - 1
    mask = _unsqueezed(g, inside, [2 + i for i in range(behind)])
    kept = g.op("Where", mask, gathered, g.constant(np.zeros((), dtype)))
    result = _sum(g, kept, rank + axis + 1)
    return result, _unsqueezed(g, g.op("Sub", last, first), [1 + i for i in range(behind)])


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
