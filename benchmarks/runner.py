"""Runs one case: makes all candidates, checks them, measures them, frees them."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from types import ModuleType

import torch

from benchmarks.case import Candidate, Case
from benchmarks.measure import Plan, measure
from benchmarks.result import OURS, Result
from benchmarks.verify import error_of


def run_case(
    case: Case,
    ours: Callable[[Case, int], Iterable[Candidate]],
    peers: Iterable[ModuleType],
    threads: int,
    plan: Plan,
) -> Result:
    """Measures `case` with every candidate whose results are right.

    The inputs of the case stay, for the next number of threads; `case.release()` forgets them.
    """
    torch.set_num_threads(threads)
    candidates: list[Candidate] = list(ours(case, threads))
    missing = {}
    for peer in peers:
        try:
            candidates.extend(peer.candidates(case, threads))
        except Exception as error:
            # A peer may refuse a case with any exception; the table then says so.
            missing[peer.NAME] = _reason(error)
    try:
        right, wrong = [], {}
        for candidate in candidates:
            try:
                error = 0.0 if candidate.side == "partial" else error_of(case, candidate)
            except Exception as failure:
                if candidate.side in OURS:
                    raise
                missing[candidate.name] = _reason(failure)  # any exception, as above
                continue
            if error <= case.tolerance:
                right.append(candidate)
            else:
                wrong[candidate.name] = error
        result = Result.of(case, threads, measure(right, plan))
        result.wrong, result.missing = wrong, missing
        return result
    finally:
        for candidate in candidates:
            candidate.close()
        candidates.clear()
        gc.collect()  # sessions end their threads when they are collected


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines)[:300]}"
