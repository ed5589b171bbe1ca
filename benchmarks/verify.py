"""No number without a right result: every candidate is compared with the float64 reference."""

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
        largest = float(np.abs(right).max(initial=0.0)) or 1.0
        error = float(np.abs(result - right).max(initial=0.0)) / largest
        worst = max(worst, error if error == error else float("inf"))
    return worst


def error_of(case: Case, candidate: Candidate) -> float:
    """The error of one run of `candidate`."""
    return largest_error(candidate.results(candidate.run()), case.expected)
