"""Layouts of tensors without contents, whose lengths may be symbolic."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch

CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def guard_or_false(condition: Any) -> bool:
    """torch's function of this name. Its module imports sympy, which takes a second; a first call
    in eager mode, where no length is symbolic, needs none of it."""
    if isinstance(condition, bool):
        return condition
    from torch.fx.experimental import symbolic_shapes

    return symbolic_shapes.guard_or_false(condition)


def row_major(rank: int) -> Sequence[int]:
    return range(rank - 1, -1, -1)


def channels_last(rank: int) -> Sequence[int]:
    return (1, *range(rank - 1, 1, -1), 0)


def is_dense(tensor: torch.Tensor, order: Sequence[int]) -> bool | None:
    """Whether the tensor fills memory without gaps; the first axis in `order` is the fastest.

    None if that depends on a length that only the data decides, as that of `x[:, :, :k.item()]`.
    Such lengths are taken to be neither 0 nor 1, as in torch's own functions.
    """
    if any(guard_or_false(length == 0) for length in tensor.shape):
        return order == row_major(tensor.dim())
    step: Any = 1
    known = True
    for axis in order:
        length, stride = tensor.shape[axis], tensor.stride(axis)
        if guard_or_false(length == 1):
            continue
        if guard_or_false(stride != step):
            return False
        known = known and guard_or_false(stride == step)
        step = step * length
    return True if known else None


def is_channels_last(tensor: torch.Tensor, label: str) -> bool:
    """Whether results should be channels_last too, as Tensor::channels_last in myops/tensor.h.

    So they are for a crop of channels_last memory too; ambiguous layouts count as contiguous.

    Raises:
        RuntimeError: A length that only the data decides also decides this.
    """
    rank = tensor.dim()
    if rank not in CHANNELS_LAST or is_dense(tensor, row_major(rank)):
        return False
    if any(guard_or_false(length == 0) for length in tensor.shape):
        return False
    axes = [axis for axis in channels_last(rank) if not guard_or_false(tensor.shape[axis] == 1)]
    if 1 not in axes or not any(axis > 1 for axis in axes):
        return False
    strides = [tensor.stride(axis) for axis in axes]
    pairs = list(pairwise(strides))
    if guard_or_false(strides[0] <= 0) or any(guard_or_false(one >= other) for one, other in pairs):
        return False
    # Of a length that only the data decides, 3 < 3 * u is not known, but 3 * u <= 3 * u is.
    lengths = [tensor.shape[axis] for axis in axes]
    if all(
        guard_or_false(one < other) or guard_or_false(one * length <= other)
        for (one, other), length in zip(pairs, lengths, strict=False)
    ):
        return True
    raise RuntimeError(
        f"{label}: got a tensor of shape {list(tensor.shape)} and strides {list(tensor.stride())}: "
        "whether it is channels_last, as its result would then be, depends on a length that only "
        "the data decides; expected .contiguous() before the call, with "
        f"memory_format={CHANNELS_LAST[rank]} to keep that layout"
    )


def elementwise_strides(operands: Sequence[torch.Tensor], shape: Sequence[Any]) -> list[Any]:
    """As in csrc/core/elementwise_order.h; lengths may be symbolic."""
    strides = []
    for item in operands:
        lead = len(shape) - item.dim()
        strides.append([0] * lead + [
            0 if _is_repeated(item.shape[axis], shape[lead + axis]) else item.stride(axis)
            for axis in range(item.dim())
        ])  # fmt: skip

    def compare(left: int, right: int) -> int:
        for one in strides:
            if guard_or_false(one[left] == 0) or guard_or_false(one[right] == 0):
                continue
            if guard_or_false(one[left] < one[right]):
                return -1
            if guard_or_false(one[left] > one[right]):
                return 1
            if guard_or_false(one[left] == one[right]) and guard_or_false(
                shape[left] > shape[right]
            ):
                return 1
        return 0

    order: list[int] = []
    for axis in reversed(range(len(shape))):
        order.append(axis)
        at = len(order) - 1
        for before in reversed(range(at)):
            found = compare(order[before], order[at])
            if found < 0:
                break
            if found > 0:
                order[before], order[at] = order[at], order[before]
                at = before
    return dense_strides(shape, order)


def _is_repeated(length: Any, of_result: Any) -> bool:
    return guard_or_false(length == 1) and not guard_or_false(of_result == 1)


def dense_strides(shape: Sequence[Any], order: Sequence[int]) -> list[Any]:
    """Of memory without gaps, whose fastest axis is the first in `order`."""
    strides = [0] * len(shape)
    step = 1
    for axis in order:
        strides[axis] = step
        step = step * (max(shape[axis], 1) if isinstance(shape[axis], int) else shape[axis])
    return strides
