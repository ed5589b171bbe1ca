"""Compares every candidate with the float64 reference, so that only right results are timed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.case import Candidate, Case


def largest_error(results: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """max |result - expected| / max |expected|, over all arrays; infinite where shapes differ."""
    if len(results) != len(expected):
        return float("inf")
    worst = 0.0
    for result, right in zip(results, expected, strict=True):
        if result.shape != right.shape:
            return float("inf")
        largest = max(abs(float(right.max(initial=0.0))), abs(float(right.min(initial=0.0)))) or 1.0
        for part, right_part in zip(_pieces(result), _pieces(right), strict=True):
            error = float(np.abs(part - right_part).max(initial=0.0)) / largest
            worst = max(worst, error if error == error else float("inf"))
    return worst


def _pieces(array: np.ndarray, length: int = 2**20) -> list[np.ndarray]:
    """Short enough that the differences stay in the cache: results have up to 5e7 elements."""
    flat = array.reshape(-1)
    return [flat[start : start + length] for start in range(0, flat.size, length)]


def error_of(case: Case, candidate: Candidate) -> float:
    """The error of one run of `candidate`."""
    return largest_error(candidate.results(candidate.run()), case.expected)
