"""Sums at indices that occur several times: `index_put_(..., accumulate=True)`, `index_add`,
`scatter_add`.

torch's older exporter writes the numbers into zeros, where the last one of an index wins, and adds
these to the tensor. ScatterND and ScatterElements add from opset 16 on; torch uses that for
scatter_add only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.onnx import symbolic_helper

from myops.onnx.symbolics import registered_torchscript

_ADDING = 16  # the first opset whose nodes add


@contextlib.contextmanager
def added() -> Iterator[None]:
    """In this context, the older exporter adds all of them, or refuses, unless a user has
    registered the operators."""
    with (
        registered_torchscript.wrapped("aten::index_put", _index_put),
        registered_torchscript.wrapped("aten::index_add", _index_add),
        registered_torchscript.wrapped("aten::scatter_add", _scatter_add),
    ):
        yield


def _index_put(
    original: Callable[..., Any], g: Any, x: Any, indices: Any, values: Any, accumulate: Any = None
) -> Any:
    given = () if accumulate is None else (accumulate,)
    result = original(g, x, indices, values, *given)
    if accumulate is None or not symbolic_helper._parse_arg(accumulate, "b"):
        return result
    node = result.node()  # Add(x, ScatterND(zeros, ...)), or what is written for a mask
    scattered = [item.node() for item in node.inputs() if item.node().kind() == "onnx::ScatterND"]
    if node.kind() == "onnx::Add" and scattered:
        _refuse_before("aten::index_put", g)
        scattered[0].s_("reduction", "add")
    return result


def _index_add(
    original: Callable[..., Any],
    g: Any,
    x: Any,
    dim: Any,
    index: Any,
    source: Any,
    alpha: Any = None,
) -> Any:
    _refuse_before("aten::index_add", g)
    rank, others = map(symbolic_helper._get_tensor_rank, (x, source))
    axis = symbolic_helper._maybe_get_const(dim, "i")
    if not rank or rank != others or not isinstance(axis, int):
        return original(g, x, dim, index, source, alpha)
    axis %= rank
    along = [-1 if place == axis else 1 for place in range(rank)]
    index = g.op("Reshape", index, g.op("Constant", value_t=torch.tensor(along)))
    index = g.op("Expand", index, g.op("Shape", source))
    if alpha is not None and symbolic_helper._maybe_get_const(alpha, "t") != 1:
        source = g.op("Mul", source, g.op("CastLike", alpha, source))
    return g.op("ScatterElements", x, index, source, axis_i=axis, reduction_s="add")


def _scatter_add(original: Callable[..., Any], g: Any, *args: Any) -> Any:
    _refuse_before("aten::scatter_add", g)
    return original(g, *args)


def _refuse_before(name: str, g: Any) -> None:
    if g.opset < _ADDING:
        context = registered_torchscript.TorchScriptContext(name, g, g.opset)
        context.refuse(
            f"before opset {_ADDING} ONNX cannot add numbers at equal indices; "
            f"write opset_version={_ADDING} or later"
        )
