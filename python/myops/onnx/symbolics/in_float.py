"""Operators that PyTorch computes in a float dtype, whatever the dtypes of their arguments are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import torch

_NARROW = ("float16", "bfloat16")  # which PyTorch computes in float32


def in_float(g: Any, *values: Any, function: Callable[..., Any]) -> Any:
    """The result of `function(g, constants, *values)` in the dtype in which PyTorch computes, cast
    to that of PyTorch's result.

    constants: A function that makes a constant of that dtype.
    """
    dtypes = [dtype for dtype in map(g.dtype, values) if dtype is not None]
    if any(dtype.kind == "c" for dtype in dtypes):
        g.refuse("its arguments are complex numbers")
    floats = [dtype for dtype in dtypes if dtype.kind not in "biu"]
    default = np.dtype(str(torch.get_default_dtype())[6:])
    result = np.result_type(*floats) if floats else default
    used = np.dtype(np.float32) if str(result) in _NARROW else result
    made = function(
        g, lambda number: g.constant(np.array(number, used)), *(
            value if g.dtype(value) == used else _cast(g, value, used) for value in values)
    )  # fmt: skip
    return made if used == result else _cast(g, made, result)


def reduced(g: Any, kind: str, value: Any, axis: int, since: int, keepdims: int = 1) -> Any:
    """A reduction along one axis.

    since: The opset from which axes are an input.
    """
    if g.opset >= since:
        return g.op(kind, value, g.constant(np.array([axis], np.int64)), keepdims=keepdims)
    return g.op(kind, value, axes=[axis], keepdims=keepdims)


def _cast(g: Any, value: Any, dtype: np.dtype) -> Any:
    return g.op("Cast", value, to=onnx.helper.np_dtype_to_tensor_dtype(dtype))
