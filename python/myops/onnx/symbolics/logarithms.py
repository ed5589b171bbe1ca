"""Logarithms and exponentials near 0 and far from it: `log1p`, `expm1`, `logaddexp`, `logaddexp2`,
`logcumsumexp` and `binary_cross_entropy_with_logits`.

torch's exporters write log(1 + x), which is 0 for a small x, exp(x) of a large x, which is
infinite, and the logarithm of a sum or a sigmoid that is 0.
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

_OPSET = 11  # of Equal for floats
_MEAN, _SUM = 1, 2


@contextlib.contextmanager
def registered() -> Iterator[None]:
    """In this context, both exporters write these so, unless a user has registered them."""
    elementwise: dict[str, Callable[..., Any]] = {
        "log1p": log1p, "expm1": _expm1, "special_log1p": log1p, "special_expm1": _expm1,
        "logaddexp": _log_add, "logaddexp2": _log2_add,
    }  # fmt: skip
    functions: dict[str, Callable[..., Any]] = {
        f"aten::{name}": functools.partial(in_float, function=function)
        for name, function in elementwise.items()
    }
    functions["aten::logcumsumexp"] = _log_sums
    functions["aten::binary_cross_entropy_with_logits"] = _cross_entropy
    with register.registered_for_now(functions, _OPSET):
        yield


def log1p(g: Any, constant: Any, x: Any) -> Any:
    """log(1 + x): what rounding 1 + x changes near 0 is a factor of both logarithm and difference
    to 1."""
    one = constant(1)
    sum_ = g.op("Add", x, one)
    plain = g.op("Log", sum_)
    factor = g.op("Div", x, g.op("Sub", sum_, one))
    is_small = g.op("Less", g.op("Abs", x), constant(0.5))
    found = g.op("Where", is_small, g.op("Mul", plain, factor), plain)
    return g.op("Where", g.op("Equal", sum_, one), x, found)


def _expm1(g: Any, constant: Any, x: Any) -> Any:
    one = constant(1)
    power = g.op("Exp", x)
    plain = g.op("Sub", power, one)
    factor = g.op("Div", x, g.op("Log", power))
    is_small = g.op("Less", g.op("Abs", x), constant(0.5))
    found = g.op("Where", is_small, g.op("Mul", plain, factor), plain)
    return g.op("Where", g.op("Equal", power, one), x, found)


def _log_add(g: Any, constant: Any, a: Any, b: Any, base: float = math.e) -> Any:
    """The logarithm of the sum of powers: the larger one, and that of 1 + the smaller power."""
    scale = math.log(base)
    difference = g.op("Abs", g.op("Sub", a, b))
    power = g.op("Exp", g.op("Mul", difference, constant(-scale)))
    more = g.op("Div", log1p(g, constant, power), constant(scale))
    # The difference of two infinities is NaN.
    more = g.op("Where", g.op("Equal", a, b), constant(math.log(2) / scale), more)
    return g.op("Add", g.op("Max", a, b), more)


def _log2_add(g: Any, constant: Any, a: Any, b: Any) -> Any:
    return _log_add(g, constant, a, b, 2.0)


def _log_sums(g: Any, x: Any, dim: int) -> Any:
    """Sums of 1, 2, 4, ... elements, each of two sums of half as many."""
    shape = g.shape(x)
    if shape is None:
        g.refuse("the number of axes of its input is not known here")
    rank = len(shape)
    if rank == 0:
        return x
    length = shape[dim]
    if isinstance(length, int):
        function = functools.partial(_doubled, axis=dim % rank, rank=rank, length=length)
    else:
        function = functools.partial(_of_any_length, axis=dim % rank, rank=rank)
    return in_float(g, x, function=function)


def _doubled(g: Any, constant: Any, x: Any, axis: int, rank: int, length: int) -> Any:
    shift = 1
    while shift < length:
        pads = np.zeros((2, rank), np.int64)
        pads[:, axis] = shift, -shift
        moved = g.op("Pad", x, g.constant(pads.ravel()), constant(-math.inf))
        x = _log_add(g, constant, x, moved)
        shift *= 2
    return x


def _of_any_length(g: Any, constant: Any, x: Any, axis: int, rank: int) -> Any:
    """From a square matrix of the elements that belong to each sum."""
    order = [*(place for place in range(rank) if place != axis), axis]
    x = g.op("Transpose", x, perm=order)
    zero, one = (g.constant(np.array(number, np.int64)) for number in (0, 1))
    length = g.op("Gather", g.op("Shape", x), g.constant(np.array(rank - 1, np.int64)))
    places = g.op("Range", zero, length, one)
    column = g.op("Reshape", places, g.constant(np.array([-1, 1], np.int64)))
    rows = g.op("Reshape", x, g.constant(np.array([0] * (rank - 1) + [1, -1], np.int64)))
    rows = g.op("Where", g.op("Greater", places, column), constant(-math.inf), rows)
    largest = reduced(g, "ReduceMax", rows, rank, 18)
    is_infinite = g.op("Equal", g.op("Abs", largest), constant(math.inf))
    largest = g.op("Where", is_infinite, constant(0), largest)
    sums = reduced(g, "ReduceSum", g.op("Exp", g.op("Sub", rows, largest)), rank, 13)
    made = g.op("Add", g.op("Log", sums), largest)
    made = g.op("Reshape", made, g.op("Shape", x))
    return g.op("Transpose", made, perm=[int(place) for place in np.argsort(order)])


def _cross_entropy(
    g: Any, x: Any, target: Any, weight: Any = None, pos_weight: Any = None, reduction: int = _MEAN
) -> Any:
    given = [item for item in (weight, pos_weight) if item is not None]

    def loss(g: Any, constant: Any, x: Any, target: Any, *given: Any) -> Any:
        """(1 - target) * x - (1 + (pos_weight - 1) * target) * logsigmoid(x), times weight."""
        one, zero = constant(1), constant(0)
        power = g.op("Exp", g.op("Neg", g.op("Abs", x)))
        log_sigmoid = g.op("Sub", g.op("Min", x, zero), log1p(g, constant, power))
        if pos_weight is not None:
            factor = g.op("Mul", g.op("Sub", given[-1], one), target)
            log_sigmoid = g.op("Mul", g.op("Add", factor, one), log_sigmoid)
        made = g.op("Sub", g.op("Mul", g.op("Sub", one, target), x), log_sigmoid)
        made = made if weight is None else g.op("Mul", made, given[0])
        if reduction in (_MEAN, _SUM):
            made = g.op("ReduceMean" if reduction == _MEAN else "ReduceSum", made, keepdims=0)
        return made

    return in_float(g, x, target, *given, function=loss)
