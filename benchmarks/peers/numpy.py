"""NumPy: 2a + b in two passes, one thread. Not counted as a peer."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks import arrays
from benchmarks.case import Candidate, Case
from benchmarks.cases.my_add import MyAddCase

NAME = "NumPy"


def candidates(case: Case, threads: int) -> Iterator[Candidate]:
    if not isinstance(case, MyAddCase) or case.nodes > 1:
        return
    a, b = case.inputs.values()
    out, two = arrays.empty([case.count]), np.float32(2)
    multiply, add = np.multiply, np.add

    def given() -> np.ndarray:
        multiply(a, two, out=out)
        return add(out, b, out=out)

    yield Candidate("numpy, out=", given, lambda result: [result], "given", "beside")
    yield Candidate(
        "numpy 2*a + b", lambda: two * a + b, lambda result: [result], "allocated", "beside"
    )
