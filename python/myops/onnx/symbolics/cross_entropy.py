"""`cross_entropy` with label smoothing, with probabilities as targets, and of one sample.

torch's exporters refuse label smoothing or leave it out, and write a node of ONNX that has no
probabilities and needs an axis of samples.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx

from myops.onnx.symbolics import register
from myops.onnx.symbolics.in_float import in_float, reduced

_OPSET = 12  # of SoftmaxCrossEntropyLoss
_REDUCTIONS = ("none", "mean", "sum")


@contextlib.contextmanager
def registered() -> Iterator[None]:
    """In this context, both exporters write cross_entropy so, unless a user has registered it."""
    with register.registered_for_now({"aten::cross_entropy_loss": _write}, _OPSET):
        yield


def _write(
    g: Any,
    x: Any,
    target: Any,
    weight: Any = None,
    reduction: int = 1,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Any:
    shape, dtype = g.shape(x), g.dtype(target)
    given = [] if weight is None else [weight]
    are_classes = dtype is None or dtype.kind in "iu"
    if are_classes and not label_smoothing and (shape is None or len(shape) > 1):
        return g.op(
            "SoftmaxCrossEntropyLoss", x, target, *given,
            ignore_index=ignore_index, reduction=_REDUCTIONS[reduction],
        )  # fmt: skip
    if shape is None:
        g.refuse("the number of axes of its input is not known here")
    if g.opset < 13:  # where LogSoftmax is over all axes from one on
        g.refuse("smoothing, probabilities and single samples are written from opset 13 on")
    rank = len(shape)
    axis = min(1, rank - 1)  # of the classes

    def sums(g: Any, constant: Any, x: Any, *given: Any) -> Any:
        """-log(softmax(x)), times the weights, of the classes that the targets state, mixed with
        the mean over all classes."""
        logarithms = g.op("Neg", g.op("LogSoftmax", x, axis=axis))
        chosen, given = (None, given) if are_classes else (given[0], given[1:])
        if given:
            lengths = [1] * rank
            lengths[axis] = -1
            factors = g.op("Reshape", given[0], g.constant(np.array(lengths, np.int64)))
            logarithms = g.op("Mul", logarithms, factors)
        if are_classes:
            losses, counted = _of_classes(
                g, constant, logarithms, target, ignore_index, axis, *given
            )
        else:
            products, counted = g.op("Mul", logarithms, chosen), None
            losses = reduced(g, "ReduceSum", products, axis, 13, keepdims=0)
        if label_smoothing:
            means = reduced(g, "ReduceMean", logarithms, axis, 18, keepdims=0)
            if counted is not None:
                means = g.op("Where", _ignored(g, target, ignore_index), constant(0), means)
            losses = g.op("Mul", losses, constant(1 - label_smoothing))
            losses = g.op("Add", losses, g.op("Mul", means, constant(label_smoothing)))
        if _REDUCTIONS[reduction] == "none":
            return losses
        if _REDUCTIONS[reduction] == "mean" and counted is None:
            return g.op("ReduceMean", losses, keepdims=0)
        total = g.op("ReduceSum", losses, keepdims=0)
        if _REDUCTIONS[reduction] == "sum":
            return total
        divisor = g.op("ReduceSum", counted, keepdims=0)
        # Not of rank 0: "torchscript" takes two numbers for float32.
        one, none = (g.constant(np.array(lengths, np.int64)) for lengths in ([1], []))
        mean = g.op("Div", g.op("Reshape", total, one), g.op("Reshape", divisor, one))
        return g.op("Reshape", mean, none)

    floats = [x, *given] if are_classes else [x, target, *given]
    return in_float(g, *floats, function=sums)


def _of_classes(
    g: Any,
    constant: Any,
    logarithms: Any,
    target: Any,
    ignore_index: int,
    axis: int,
    weight: Any = None,
) -> tuple[Any, Any]:
    """The loss of each target, and its part in the divisor of a mean: its weight, 0 if ignored."""
    place = g.constant(np.array([axis], np.int64))
    ignored = _ignored(g, target, ignore_index)
    classes = g.op("Cast", target, to=onnx.TensorProto.INT64)
    classes = g.op("Where", ignored, g.constant(np.array(0, np.int64)), classes)
    losses = g.op("GatherElements", logarithms, g.op("Unsqueeze", classes, place), axis=axis)
    losses = g.op("Where", ignored, constant(0), g.op("Squeeze", losses, place))
    if weight is not None:
        return losses, g.op("Where", ignored, constant(0), g.op("Gather", weight, classes))
    # Not Where of 0 and 1, which "torchscript" takes for float32, too.
    numbers = g.op("Cast", ignored, to=onnx.TensorProto.INT64)
    return losses, g.op("Gather", constant([1, 0]), numbers)


def _ignored(g: Any, target: Any, ignore_index: int) -> Any:
    wide = g.op("Cast", target, to=onnx.TensorProto.INT64)
    return g.op("Equal", wide, g.constant(np.array(ignore_index, np.int64)))
