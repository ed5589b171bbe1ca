"""numexpr: 2*a + b in one pass over blocks that fit in the cache. Not counted as a peer."""

from __future__ import annotations

from collections.abc import Iterator

import numexpr

from benchmarks import arrays
from benchmarks.case import Candidate, Case
from benchmarks.cases.my_add import MyAddCase

NAME = "numexpr"


def candidates(case: Case, threads: int) -> Iterator[Candidate]:
    if not isinstance(case, MyAddCase) or case.nodes > 1:
        return
    numexpr.set_num_threads(threads)
    out = arrays.empty([case.count])
    names, evaluate = dict(case.inputs), numexpr.evaluate
    yield Candidate(
        "numexpr, out=",
        lambda: evaluate("2 * a + b", names, out=out),
        lambda result: [result],
        "given",
        "beside",
    )
