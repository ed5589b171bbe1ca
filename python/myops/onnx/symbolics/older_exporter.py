"""Calls that torch's older exporter refuses or writes wrongly, although ONNX has all they need:
`padding="same"` with a dilation, attention with `enable_gqa=True`, `cumsum` of bool and short
integers, `clamp` of integers by floats, `mT`, `argwhere` and `vdot`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import torch
from torch.onnx import symbolic_helper

from myops.onnx.symbolics import register, registered_torchscript

_OPSET = 13
_Original = Callable[..., Any]


@contextlib.contextmanager
def completed() -> Iterator[None]:
    """In this context, they are written, unless a user has registered the operators."""
    wrappers: dict[str, Callable[..., Any]] = {
        "_convolution_mode": _convolution_mode,
        "clamp": _clamp,
        "clamp_max": _clamp,
        "clamp_min": _clamp,
        "cumsum": _cumsum,
        "scaled_dot_product_attention": _attention,
    }
    functions: dict[str, Callable[..., Any]] = {
        "aten::mT": _transposed, "aten::argwhere": _argwhere, "aten::vdot": _vdot,
    }  # fmt: skip
    with contextlib.ExitStack() as stack:
        for name, wrapper in wrappers.items():
            stack.enter_context(registered_torchscript.wrapped(f"aten::{name}", wrapper))
        stack.enter_context(register.registered_for_now(functions, _OPSET))
        yield


def _convolution_mode(
    original: _Original, g: Any, x: Any, weight: Any, bias: Any, *settings: Any
) -> Any:
    """ONNX Runtime takes auto_pad="SAME_UPPER" without a dilation only."""
    _, padding, dilation, groups = settings  # the stride is 1
    lengths = symbolic_helper._get_tensor_sizes(weight)
    apart = symbolic_helper._maybe_get_const(dilation, "is")
    same = symbolic_helper._parse_arg(padding, "s") == "same"
    if not same or not isinstance(apart, (list, tuple)) or lengths is None or None in lengths[2:]:
        return original(g, x, weight, bias, *settings)
    kernel = lengths[2:]
    apart = list(apart) * (len(kernel) if len(apart) == 1 else 1)
    rank = symbolic_helper._get_tensor_rank(x)
    if max(apart) == 1 or rank != len(lengths):
        return original(g, x, weight, bias, *settings)
    more = [step * (length - 1) for step, length in zip(apart, kernel, strict=True)]
    pads = [item // 2 for item in more] + [item - item // 2 for item in more]
    given = [x, weight] if symbolic_helper._is_none(bias) else [x, weight, bias]
    return g.op(
        "Conv", *given, pads_i=pads, dilations_i=apart, strides_i=[1] * len(kernel),
        group_i=symbolic_helper._parse_arg(groups, "i"),
    )  # fmt: skip


def _attention(original: _Original, g: Any, q: Any, k: Any, v: Any, *settings: Any) -> Any:
    """With each head of k and v repeated for the heads of q that share it."""
    if len(settings) < 5 or not symbolic_helper._parse_arg(settings[4], "b"):
        return original(g, q, k, v, *settings)
    if any(symbolic_helper._get_tensor_rank(item) != 4 for item in (q, k, v)):
        return original(g, q, k, v, *settings)
    heads = [g.op("Gather", g.op("Shape", item), _ints(g, [1])) for item in (q, k)]
    times = g.op("Div", *heads)
    k, v = (_repeated(g, item, times) for item in (k, v))
    off = g.op("Constant", value_t=torch.tensor(0))
    return original(g, q, k, v, *settings[:4], off)


def _repeated(g: Any, x: Any, times: Any) -> Any:
    first, last = _ints(g, [0, 1]), _ints(g, [2, 3])
    lengths = g.op("Shape", x)
    head, tail = (g.op("Gather", lengths, places) for places in (first, last))
    shape = g.op("Concat", head, times, tail, axis_i=0)
    many = g.op("Expand", g.op("Unsqueeze", x, _ints(g, [2])), shape)
    batch = g.op("Gather", lengths, _ints(g, [0]))
    return g.op("Reshape", many, g.op("Concat", batch, _ints(g, [-1]), tail, axis_i=0))


def _cumsum(original: _Original, g: Any, x: Any, dim: Any, dtype: Any = None) -> Any:
    kind = symbolic_helper._type_utils.JitScalarType.from_value(x, None)
    found = None if kind is None else kind.dtype()
    whole = found is not None and not (found.is_floating_point or found.is_complex)
    if whole and found != torch.int64 and not _is_given(dtype):
        x = g.op("Cast", x, to_i=onnx.TensorProto.INT64)
    return original(g, x, dim, dtype)


def _clamp(original: _Original, g: Any, x: Any, *bounds: Any) -> Any:
    """Of integers by a float it is a float in PyTorch."""
    types = symbolic_helper._type_utils.JitScalarType
    kinds = [types.from_value(item, None) for item in (x, *bounds) if _is_given(item)]
    known = [item.dtype() for item in kinds if item is not None]
    floats = [item.is_floating_point for item in known]
    if len(known) == len(kinds) and not floats[0] and any(floats):
        x = g.op("Cast", x, to_i=onnx.TensorProto.FLOAT)
    return original(g, x, *bounds)


def _is_given(value: Any) -> bool:
    return value is not None and not symbolic_helper._is_none(value)


def _ints(g: Any, numbers: list[int]) -> Any:
    return g.op("Constant", value_t=torch.tensor(numbers))


def _transposed(g: Any, x: Any) -> Any:
    shape = g.shape(x)
    if shape is None:
        g.refuse("the number of axes of its input is not known here")
    order = list(range(len(shape)))
    return g.op("Transpose", x, perm=[*order[:-2], order[-1], order[-2]])


def _argwhere(g: Any, x: Any) -> Any:
    if not g.shape(x):
        g.refuse("its input has no axes, or their number is not known here")
    return g.op("Transpose", g.op("NonZero", x), perm=[1, 0])


def _vdot(g: Any, a: Any, b: Any) -> Any:
    dtype = g.dtype(a)
    if dtype is None or dtype.kind == "c":
        g.refuse(f"its arguments are {dtype or 'of an unknown dtype'}, expected real numbers")
    return g.op("ReduceSum", g.op("Mul", a, b), g.constant(np.array([0], np.int64)), keepdims=0)
