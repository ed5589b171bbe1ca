"""Arithmetic on small tensors: computed at once where numbers are known, otherwise in the graph.

Functions that write an op in standard nodes use it for output lengths, factors, indices and
weights. The same formula gives constants in a model with fixed shapes, and nodes in a model with
dynamic ones.

    length = arrays.shape(g, "X", [2, 3])          # numbers, or Gather(Shape(X), [2, 3])
    out = (length.cast(np.float64) * factor).floor().cast(np.int64)
    g.op("Resize", "X", "", "", out.name)

Example:
    >>> sizes = myops.onnx.arrays.constant(None, [2, 3], np.int64) * 2  # numbers: no node
    >>> sizes.value
    array([4, 6])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx

__all__ = ["Array", "arange", "concat", "constant", "numbers", "shape", "where"]


def __dir__() -> list[str]:
    return sorted(__all__)


class Array:
    """A tensor of known dtype. `value`: its elements, or None if only the graph computes them."""

    def __init__(self, g: Any, dtype: Any, value: np.ndarray | None = None, name: str = "") -> None:
        self.g = g
        self.dtype = np.dtype(dtype)
        self.value = None if value is None else np.asarray(value, self.dtype)
        self._name = name
        self._narrow: Array | None = None  # the array of which this is the float64 form

    @property
    def name(self) -> str:
        """The name in the graph; a known value becomes a Constant at the first access."""
        if not self._name:
            self._name = self.g.constant(self.value)
        return self._name

    def _like(self, other: Any) -> Array:
        return other if isinstance(other, Array) else Array(self.g, self.dtype, np.array(other))

    def _apply(self, op: str, fold: Callable[..., Any], *others: Any, dtype: Any = None) -> Array:
        return _call(self.g, op, fold, dtype or self.dtype, self, *map(self._like, others))

    def __add__(self, other: Any) -> Array:
        return self._apply("Add", np.add, other)

    def __sub__(self, other: Any) -> Array:
        return self._apply("Sub", np.subtract, other)

    def __rsub__(self, other: Any) -> Array:
        return self._like(other) - self

    def __mul__(self, other: Any) -> Array:
        return self._apply("Mul", np.multiply, other)

    def __rmul__(self, other: Any) -> Array:
        return self._like(other) * self

    def __truediv__(self, other: Any) -> Array:
        """Of floating arrays only: ONNX's Div of integers truncates."""
        return self._apply("Div", np.divide, other)

    def __rtruediv__(self, other: Any) -> Array:
        return self._like(other) / self

    def __lt__(self, other: Any) -> Array:
        return self._apply("Less", np.less, other, dtype=np.bool_)

    def __gt__(self, other: Any) -> Array:
        return self._like(other) < self

    def equals(self, other: Any) -> Array:
        """Of integer arrays only: older opsets cannot compare floats."""
        return self._apply("Equal", np.equal, other, dtype=np.bool_)

    def either(self, other: Array) -> Array:
        """Whether either is true; of bool arrays."""
        return self._apply("Or", np.logical_or, other)

    def floor(self) -> Array:
        """Rounded down; of floating arrays."""
        return self._apply("Floor", np.floor)

    def cast(self, dtype: Any) -> Array:
        """float64 and float32 to integers truncate; the others round to nearest."""
        dtype = np.dtype(dtype)
        if self.dtype == dtype:
            return self
        if self._narrow is not None and self._narrow.dtype == dtype:
            return self._narrow  # there and back
        to = onnx.helper.np_dtype_to_tensor_dtype(dtype)
        result = _call(self.g, "Cast", lambda x: x.astype(dtype), dtype, self, to=to)
        if dtype == np.float64 and self.dtype in (np.float32, np.float16):
            result._narrow = self
        return result

    def absolute(self) -> Array:
        """Without the sign."""
        return self.at_least(0 - self)

    def sum_rows(self) -> Array:
        """The sum of each row of a matrix, as a column."""

        def total(x: np.ndarray, *_: Any) -> np.ndarray:
            return x.sum(axis=1, keepdims=True, dtype=x.dtype)

        if self.g.opset < 13:  # the axes of ReduceSum were an attribute
            return _call(self.g, "ReduceSum", total, self.dtype, self, axes=[1], keepdims=1)
        one = Array(self.g, np.int64, np.array([1]))
        return _call(self.g, "ReduceSum", total, self.dtype, self, one, keepdims=1)

    def at_most(self, other: Any) -> Array:
        """The smaller of the two, element by element."""
        return where(self > other, other, self)

    def at_least(self, other: Any) -> Array:
        """The larger of the two, element by element."""
        return where(self < other, other, self)

    def reshape(self, shape: Sequence[int]) -> Array:
        """The same elements with other lengths, which may contain one -1."""
        to = Array(self.g, np.int64, np.array(shape, np.int64))
        return self._apply_to("Reshape", lambda x, s: x.reshape(s), to)

    def take(self, places: Array | Sequence[int]) -> Array:
        """The elements of a list at `places`."""
        if not isinstance(places, Array):
            places = Array(self.g, np.int64, np.array(places, np.int64))
        return self._apply_to("Gather", lambda x, i: x[i], places)

    def _apply_to(self, op: str, fold: Callable[..., Any], other: Array) -> Array:
        return _call(self.g, op, fold, self.dtype, self, other)


def _call(
    g: Any, op: str, fold: Callable[..., Any], dtype: Any, *arrays: Array, **attributes: Any
) -> Array:
    if all(array.value is not None for array in arrays):
        with np.errstate(all="ignore"):
            return Array(g, dtype, fold(*[array.value for array in arrays]))
    return Array(g, dtype, name=g.op(op, *[array.name for array in arrays], **attributes))


def constant(g: Any, value: Any, dtype: Any) -> Array:
    """An array of known numbers. `g` may be None if no node is going to read it."""
    return Array(g, dtype, np.array(value, dtype))


def where(condition: Array, yes: Any, no: Any) -> Array:
    """`yes` where the condition holds, else `no`; one of the two is an Array."""
    like = yes if isinstance(yes, Array) else no
    yes, no = like._like(yes), like._like(no)
    known = condition.value
    if known is not None and known.size == 1 and (yes.value is None or no.value is None):
        return yes if known.all() else no
    return _call(condition.g, "Where", np.where, like.dtype, condition, yes, no)


def concat(items: Sequence[Array | int]) -> Array:
    """One list from several, and from numbers; neighbours that are known become one constant.

    At least one item is an array; all have one dtype.
    """
    like = next(item for item in items if isinstance(item, Array))
    merged: list[Array] = []
    for item in items:
        array = item if isinstance(item, Array) else constant(like.g, [item], like.dtype)
        if merged and merged[-1].value is not None and array.value is not None:
            both = np.concatenate([merged[-1].value, array.value])
            merged[-1] = Array(array.g, array.dtype, both)
        else:
            merged.append(array)
    if len(merged) == 1:
        return merged[0]
    g = merged[0].g
    return Array(g, merged[0].dtype, name=g.op("Concat", *[a.name for a in merged], axis=0))


def arange(length: Array) -> Array:
    """[0, 1, ..., length - 1] as int64; `length` is one int64 number."""
    g = length.g
    if length.value is not None:
        return Array(g, np.int64, np.arange(int(length.value.reshape(()))))
    if g.opset >= 11:
        zero, one = constant(g, 0, np.int64), constant(g, 1, np.int64)
        return Array(g, np.int64, name=g.op("Range", zero.name, length.reshape([]).name, one.name))
    # Before Range: the places of the elements of a vector of ones that are not zero.
    ones = g.op("ConstantOfShape", length.reshape([1]).name,
                value=onnx.helper.make_tensor("one", onnx.TensorProto.INT64, [1], [1]))  # fmt: skip
    return Array(g, np.int64, name=g.op("NonZero", ones)).reshape([-1])


def shape(g: Any, name: str, axes: Sequence[int]) -> Array:
    """The lengths of the input `name` along `axes`, as an int64 list."""
    known = g.shape(name)
    if known is not None and all(isinstance(known[axis], int) for axis in axes):
        return constant(g, [known[axis] for axis in axes], np.int64)
    lengths = Array(g, np.int64, name=g.op("Shape", g.input(name)))
    return lengths.take(list(axes))


def numbers(g: Any, name: str, dtype: Any) -> Array:
    """The list in the input `name` as `dtype`: its numbers where they are constant."""
    known = g.value(name)
    if known is not None:
        return Array(g, dtype, known.reshape(-1).astype(dtype))
    return Array(g, g.dtype(name), name=g.input(name)).cast(dtype)
