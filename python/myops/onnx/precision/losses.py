"""Metrics for the loss of a model's outputs in fewer bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from myops._names import choose
from myops.onnx import fill_values


def _both(expected: np.ndarray, got: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Both in float64, where they can be compared; equal non-finite elements become 0.

    Fill values at masked places become 0 in both, so that errors of the other elements count.
    """
    if expected.shape != got.shape:
        return None
    a, b = expected.astype(np.float64), got.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if not np.isfinite(np.where(same, 0, a - b)).all():
        return None
    odd = same & ~np.isfinite(a)
    limit = fill_values.least(a)
    odd |= (np.abs(a) >= limit) & (np.abs(a - b) <= 0.01 * np.abs(a))
    return np.where(odd, 0, a), np.where(odd, 0, b)


def relative_l2(expected: np.ndarray, got: np.ndarray) -> float:
    """Euclidean norm of the error over that of the expected values.

    Example:
        >>> relative_l2(np.float32([3, 4]), np.float32([3, 4.5]))
        0.1
    """
    pair = _both(expected, got)
    if pair is None:
        return math.inf
    error, scale = float(np.linalg.norm(pair[1] - pair[0])), float(np.linalg.norm(pair[0]))
    return error / scale if scale else (math.inf if error else 0.0)


def largest(expected: np.ndarray, got: np.ndarray) -> float:
    """Largest error over the largest magnitude of the expected values.

    Example:
        >>> largest(np.float32([3, 4]), np.float32([3, 5]))
        0.25
    """
    pair = _both(expected, got)
    if pair is None:
        return math.inf
    error = float(np.abs(pair[1] - pair[0]).max(initial=0))
    scale = float(np.abs(pair[0]).max(initial=0))
    return error / scale if scale else (math.inf if error else 0.0)


def decibels(loss: float) -> float:
    """The signal-to-noise ratio, in decibels, for a relative L2 error; infinite for no error.

    Example:
        >>> decibels(0.01)
        40.0
    """
    return math.inf if loss == 0 else -20 * math.log10(loss) if math.isfinite(loss) else -math.inf


METRICS: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "relative-l2": relative_l2,
    "max": largest,
    "sqnr": relative_l2,  # shown in decibels
}
MEANINGS = {
    "relative-l2": "Euclidean norm of the error over that of the original output",
    "max": "largest error over the largest magnitude of the original output",
    "sqnr": "signal-to-noise ratio in decibels: 20 log10(1 / relative-l2)",
}


class Bound:
    """The allowed loss, in a metric; the worst output of the worst input counts.

    Args:
        metric: One of METRICS.
        most: The bound; for "sqnr" the smallest ratio in decibels. None: there is none.
    """

    def __init__(self, metric: str = "relative-l2", most: float | None = None) -> None:
        self.metric = choose(metric, METRICS, "metric: there is")
        if most is not None and not (most >= 0 and math.isfinite(most)):
            raise ValueError(f"max_loss: got {most}, expected a number >= 0")
        self.most = most

    def loss(self, expected: np.ndarray, got: np.ndarray) -> float:
        """The loss of an output; larger is worse, also for "sqnr", whose loss is relative-l2."""
        return METRICS[self.metric](expected, got)

    def shown(self, loss: float) -> float:
        """The loss in the unit of the metric."""
        return decibels(loss) if self.metric == "sqnr" else loss

    def holds(self, loss: float) -> bool:
        if self.most is None:
            return True
        shown = self.shown(loss)
        return shown >= self.most if self.metric == "sqnr" else shown <= self.most

    def text(self, loss: float) -> str:
        shown = self.shown(loss)
        return f"{shown:.1f} dB" if self.metric == "sqnr" else f"{shown:.2g}"


def of_outputs(
    bound: Bound,
    expected: Sequence[Mapping[str, Any]],
    got: Sequence[Mapping[str, Any]],
) -> dict[str, float]:
    """The largest loss of each output over several runs; for integers, how many differ.

    Values that are no tensors are left out.
    """
    found: dict[str, float] = {}
    for one, two in zip(expected, got, strict=True):
        for name, array in one.items():
            other = two.get(name)
            if not isinstance(array, np.ndarray) or not isinstance(other, np.ndarray):
                continue
            if array.dtype.kind == "f" or other.dtype.kind == "f":
                loss = bound.loss(array, other)
            elif array.shape != other.shape:
                loss = math.inf
            else:
                loss = float(np.mean(array != other)) if array.size else 0.0
            found[name] = max(found.get(name, 0.0), loss)
    return found
