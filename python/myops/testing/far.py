"""Tensors whose elements are so far apart that offsets do not fit into 32 bits."""

from __future__ import annotations

import mmap
import sys

import torch

_BEYOND = 1 << 31
_SMALLEST_PAGE = 4096


def far_apart(tensor: torch.Tensor) -> torch.Tensor | None:
    """The same numbers with 2^31 elements between the first and the last along the longest axis;
    None if it has one element, or on another system than Linux.

    The memory is an address range of which only the pages with elements become memory. It begins
    2^31 elements before the first, so that a kernel whose offsets overflow reads zeros.

    Raises:
        OSError: The process may not have so large a range.
    """
    lengths = list(tensor.shape)
    if not tensor.numel() or max(lengths, default=0) < 2 or not sys.platform.startswith("linux"):
        return None
    axis = lengths.index(max(lengths))
    step = -(-_BEYOND // (lengths[axis] - 1)) + 1
    others = tensor.numel() // lengths[axis]
    if others > step:
        return None
    strides, inner = [0] * tensor.dim(), 1
    for place in reversed(range(tensor.dim())):
        if place != axis:
            strides[place], inner = inner, inner * lengths[place]
    strides[axis] = step
    size = (_BEYOND + step * lengths[axis] + others) * tensor.element_size() + _SMALLEST_PAGE
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
    memory = torch.frombuffer(mmap.mmap(-1, size, flags=flags), dtype=torch.uint8)
    whole = memory[: size // tensor.element_size() * tensor.element_size()].view(tensor.dtype)
    return whole.as_strided(lengths, strides, _BEYOND).copy_(tensor)
