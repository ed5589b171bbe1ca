"""Functions that order elements, which torch's exporters cannot write: `sort` and `argsort` with
stable=True, `median`, `kthvalue`, and `searchsorted`.

TopK puts the lower index first where values are equal, in both directions, as a stable sort does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx

from myops.onnx.symbolics import register

_OPSET = 13  # of Unsqueeze and Squeeze with axes as input
_OF_TOPK = ("float32", "float64", "int32", "int64")


@contextlib.contextmanager
def registered() -> Iterator[None]:
    """In this context, both exporters write these so, unless a user has registered them."""
    functions: dict[str, Callable[..., Any]] = {
        "aten::sort.stable": _sort,
        "aten::argsort.stable": _argsort,
        "aten::median": _median,
        "aten::kthvalue": _kthvalue,
        "aten::searchsorted.Tensor": _searchsorted,
    }
    with register.registered_for_now(functions, _OPSET):
        yield


def _sort(
    g: Any, x: Any, *, stable: Any = None, dim: int = -1, descending: bool = False
) -> tuple[Any, Any]:
    rank = _rank(g, x)
    if rank == 0:
        return x, g.constant(np.array(0, np.int64))
    return _first(g, x, g.dtype(x), _length(g, x, dim % rank), dim % rank, descending)


def _argsort(g: Any, x: Any, *, stable: Any, dim: int = -1, descending: bool = False) -> Any:
    return _sort(g, x, dim=dim, descending=descending)[1]


def _median(g: Any, x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower one of the two in the middle, of an axis with its index."""
    rank, dtype = _rank(g, x), g.dtype(x)
    if dim is None:
        x = g.op("Reshape", x, _vector(g, -1))
        return _place(g, x, dtype, _middle(g, _length(g, x, 0)), 0, False)[0]
    if rank == 0:
        return x, g.constant(np.array(0, np.int64))
    return _place(g, x, dtype, _middle(g, _length(g, x, dim % rank)), dim % rank, keepdim)


def _kthvalue(g: Any, x: Any, k: Any, dim: int = -1, keepdim: bool = False) -> tuple[Any, Any]:
    rank = _rank(g, x)
    if rank == 0:
        return x, g.constant(np.array(0, np.int64))
    return _place(g, x, g.dtype(x), g.list([k]), dim % rank, keepdim)


def _searchsorted(
    g: Any,
    sorted_: Any,
    values: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    """How many elements of the sorted row are less than each value (or equal, if right)."""
    if sorter is not None:
        g.refuse("it has a sorter")
    rank, others = _rank(g, sorted_), _rank(g, values)
    dtypes = [g.dtype(item) for item in (sorted_, values)]
    if dtypes[0] is None or dtypes[0] != dtypes[1]:
        g.refuse(f"its arguments are {dtypes[0]} and {dtypes[1]}, not of one dtype")
    if dtypes[0].name not in _OF_TOPK:
        sorted_, values = (_cast(g, item, np.dtype(np.float32)) for item in (sorted_, values))
    if others > 0 or rank > 1:
        values = g.op("Unsqueeze", values, _vector(g, -1))
        sorted_ = g.op("Unsqueeze", sorted_, _vector(g, -2)) if rank > 1 else sorted_
    kind = "Greater" if right or side == "right" else "GreaterOrEqual"
    # Not Less: a NaN among the values is behind all numbers, as in PyTorch.
    before = g.op("Not", g.op(kind, sorted_, values))
    dtype = np.dtype(np.int32 if out_int32 else np.int64)
    return g.op("ReduceSum", _cast(g, before, dtype), _vector(g, -1), keepdims=0)


def _first(g: Any, x: Any, dtype: Any, count: Any, axis: int, descending: bool) -> tuple[Any, Any]:
    """The first elements in sorted order, with their indices."""
    if dtype is None:
        g.refuse("the dtype of its input is not known here")
    used = dtype if dtype.name in _OF_TOPK else np.dtype(_wider(g, dtype))
    values, indices = g.op(
        "TopK", _cast(g, x, used) if used != dtype else x, count,
        outputs=2, axis=axis, largest=int(descending), sorted=1,
    )  # fmt: skip
    return (values if used == dtype else _cast(g, values, dtype)), indices


def _wider(g: Any, dtype: np.dtype) -> Any:
    if dtype.kind == "c" or dtype.name in ("uint64", "uint32"):
        g.refuse(f"its input is {dtype}")
    return np.int32 if dtype.kind in "biu" else np.float32


def _place(g: Any, x: Any, dtype: Any, count: Any, axis: int, keepdim: bool) -> tuple[Any, Any]:
    """The last of the `count` smallest elements, with its index."""
    last = g.op("Sub", count, _vector(g, 1))
    found = tuple(
        g.op("Gather", item, last, axis=axis) for item in _first(g, x, dtype, count, axis, False)
    )
    if not keepdim:
        found = tuple(g.op("Squeeze", item, _vector(g, axis)) for item in found)
    return found[0], found[1]


def _middle(g: Any, length: Any) -> Any:
    return g.op("Div", g.op("Add", length, _vector(g, 1)), _vector(g, 2))


def _length(g: Any, x: Any, axis: int) -> Any:
    """As a vector of one element."""
    return g.op("Gather", g.op("Shape", x), _vector(g, axis))


def _rank(g: Any, x: Any) -> int:
    shape = g.shape(x)
    if shape is None:
        g.refuse("the number of axes of its input is not known here")
    return len(shape)


def _vector(g: Any, number: int) -> Any:
    return g.constant(np.array([number], np.int64))


def _cast(g: Any, value: Any, dtype: np.dtype) -> Any:
    return g.op("Cast", value, to=onnx.helper.np_dtype_to_tensor_dtype(dtype))
