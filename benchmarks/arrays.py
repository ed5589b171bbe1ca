"""Memory of inputs and results. Every array starts at a cache line, for all candidates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch


def empty(shape: Sequence[int]) -> np.ndarray:
    """float32, written once, so that its page faults are not part of any measurement."""
    return torch.zeros(*shape).numpy()


def normal(shape: Sequence[int], seed: int) -> np.ndarray:
    """float32, standard normal."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).numpy()


def off_integers(shape: Sequence[int], seed: int, width: float, margin: float) -> np.ndarray:
    """float32, normal with standard deviation `width`, at least `margin` away from every integer.

    The gradient of a bilinear sample jumps where its position is an integer, so that there a
    rounding error decides which of two right answers comes out.
    """
    values = width * normal(shape, seed)
    whole = np.floor(values)
    return whole + np.clip(values - whole, margin, 1 - margin)
