"""my_add: 2a + b, the teaching example. Read this file first to see what an op file holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from onnx import TensorProto, helper
from torch import Tensor

from myops._torch.call import TorchOp
from myops._torch.define import define
from myops._torch.layouts import guard_or_false

__all__ = ["my_add"]


def my_add(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """Computes 2a + b, element by element.

    float16 and bfloat16 are computed in float32 and rounded once; integers wrap around.

    Args:
        a: Tensor[*A], float16, bfloat16, float32, float64, int32 or int64.
        b: Tensor[*B] of the same dtype; A and B broadcast as in NumPy.
        out: A tensor for the result, of its shape, dtype and layout, with memory of its own. As
            with torch's functions, no tensor of the call may require grad in grad mode. For
            large results this saves the page faults of new memory.

    Returns:
        Tensor of the broadcast shape and the dtype of a, or `out`. channels_last if a is.
        Differentiable any number of times.

    Raises:
        RuntimeError: The dtypes differ or are not in the list, or the shapes do not broadcast; or
            `out` is not as described.

    Example:
        >>> myops.my_add(torch.tensor([1.0, 2.0]), torch.tensor([10.0, 20.0]))
        tensor([12., 24.])
    """
    if torch.jit.is_scripting():
        if out is None:
            return torch.ops.myops.my_add(a, b)
        torch.ops.myops.my_add(a, b, out=out)
        return out
    else:
        return _my_add.call((a, b), {}, out)


def standard(g: Any) -> list[str]:
    """The op in standard ONNX nodes: Mul and Add.

    Half floats pass through float32, as in the kernel: one rounding, and ONNX Runtime has no
    arithmetic on bfloat16 on a CPU.
    """
    dtype = g.dtype("a")
    a, b = g.input("a"), g.input("b")
    half = dtype.itemsize == 2
    if half:
        a, b = (g.op("Cast", item, to=TensorProto.FLOAT) for item in (a, b))
    two = g.constant(np.array(2, np.float32 if half else dtype))
    result = g.op("Add", g.op("Mul", a, two), b)
    return [g.op("Cast", result, to=helper.np_dtype_to_tensor_dtype(dtype)) if half else result]


def reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The formula in NumPy and at least float64, for tests."""
    wide = np.float64 if np.issubdtype(a.dtype, np.floating) else a.dtype
    return 2 * a.astype(wide) + b.astype(wide)


def _shape(inputs: Sequence[Any], attributes: dict[str, Any]) -> list[Any]:
    return [torch.broadcast_shapes(inputs[0].shape, inputs[1].shape)]


def _save(ctx: Any, inputs: Sequence[Any], attributes: dict[str, Any], output: Tensor) -> None:
    ctx.shapes = [inputs[0].shape, inputs[1].shape]
    ctx.output_shape = output.shape


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
    a, b = ctx.shapes
    return (
        _sum_to(2 * grad, a) if ctx.needs_input_grad[0] else None,
        _sum_to(grad, b) if ctx.needs_input_grad[1] else None,
    )


def _sum_to(grad: Tensor, shape: Sequence[Any]) -> Tensor:
    """As `Tensor.sum_to_size`, which refuses lengths that only the data decides."""
    lead = grad.dim() - len(shape)
    ones = [axis + lead for axis, length in enumerate(shape) if guard_or_false(length == 1)]
    axes = [*range(lead), *(axis for axis in ones if not guard_or_false(grad.shape[axis] == 1))]
    return grad.sum(axes, keepdim=True).reshape(shape) if axes else grad


def _jvp(ctx: Any, a: Tensor | None, b: Tensor | None) -> Tensor:
    doubled = None if a is None else (2 * a).expand(ctx.output_shape)
    plain = None if b is None else b.expand(ctx.output_shape)
    if doubled is None or plain is None:
        known = doubled if plain is None else plain
        assert known is not None  # autograd calls this only if an input has a tangent
        return known.clone()
    return doubled + plain


def _vmap(
    op: TorchOp, info: Any, in_dims: Sequence[Any], inputs: Sequence[Any], attributes: Any
) -> tuple[Tensor, int]:
    """The batch goes in front; ones behind it keep the other axes aligned on the right."""
    pairs = list(zip(inputs, in_dims, strict=True))
    rank = max(item.dim() - (dim is not None) for item, dim in pairs)

    def lift(item: Tensor, dim: int | None) -> Tensor:
        if dim is None:
            return item
        front = item.movedim(dim, 0)
        ones = [1] * (rank - (front.dim() - 1))
        return front.reshape(front.shape[0], *ones, *front.shape[1:])

    return op(*[lift(item, dim) for item, dim in pairs]), 0


_my_add = define(
    "my_add",
    shape=_shape,
    save=_save,
    backward=_backward,
    jvp=_jvp,
    vmap=_vmap,
    standard=standard,
)
