"""numexpr: 2*a + b in one pass over blocks that fit in the cache. Shown, not counted."""

from __future__ import annotations

from collections.abc import Iterator

import numexpr
import numpy as np

from benchmarks import arrays
from benchmarks.case import Candidate, Case
from benchmarks.cases.my_add import MyAddCase

NAME = "numexpr"


def candidates(case: Case, threads: int) -> Iterator[Candidate]:
    if not isinstance(case, MyAddCase):
        return
    numexpr.set_num_threads(threads)
    out = arrays.empty([case.count])
    compiled = numexpr.NumExpr("2 * a + b", [("a", np.float32), ("b", np.float32)])
    a, b = case.inputs.values()
    yield Candidate(
        "numexpr, out=",
        lambda: compiled(a, b, out=out),
        lambda result: [result],
        "given",
        "beside",
    )
