"""Contents of memory that the next allocations get."""

from __future__ import annotations

from collections.abc import Iterable

import torch


def fill_freed(sizes: Iterable[int], fill: int) -> None:
    """Fills memory of these sizes, in bytes, and frees it; the next tensors of them lie in it."""
    stale = [
        torch.full((size,), fill, dtype=torch.uint8) for size in sizes for _ in range(8) if size
    ]
    del stale
