"""`x[i, j]` with negative numbers in i and j, which count from the end of an axis.

torch's older exporter makes one index of all of them, i * (length of the axis of j) + j, which is
the wrong element where one is negative. (A single index becomes Gather, which counts from the end
too; so do the nodes of the newer exporter.)
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.onnx import symbolic_helper

from myops.onnx.symbolics import registered_torchscript
from myops.onnx.symbolics.non_negative import never_negative


@contextlib.contextmanager
def counted_from_the_end() -> Iterator[None]:
    """In this context, the older exporter writes them so, unless a user has registered it."""
    with registered_torchscript.wrapped("aten::index", _index):
        yield


def _index(original: Callable[..., Any], g: Any, x: Any, index: Any) -> Any:
    if symbolic_helper._is_packed_list(index):
        indices = symbolic_helper._unpack_list(index)
        places = [n for n, item in enumerate(indices) if not symbolic_helper._is_none(item)]
        if len(places) > 1:
            counted = [
                _counted(g, x, axis, item) if axis in places else item
                for axis, item in enumerate(indices)
            ]
            index = g.op("prim::ListConstruct", *counted)
    return original(g, x, index)


def _counted(g: Any, x: Any, axis: int, index: Any) -> Any:
    types = symbolic_helper._type_utils.JitScalarType
    kind = types.from_value(index, types.UNDEFINED)
    if kind not in (types.INT64, types.INT) or never_negative(index):  # others are masks
        return index
    lengths = g.op("Shape", x)
    length = g.op("Gather", lengths, g.op("Constant", value_t=torch.tensor(axis)), axis_i=0)
    zero = g.op("Constant", value_t=torch.tensor(0))
    if kind == types.INT:
        index = g.op("Cast", index, to_i=torch.onnx.TensorProtoDataType.INT64)
    return g.op("Where", g.op("Less", index, zero), g.op("Add", index, length), index)
