"""Combinations of options that have every two options together (a covering array of strength 2).

    @pytest.mark.parametrize(NAMES, pairs.covering(COMMANDS, KINDS, OUTPUTS))

Most faults depend on two options, few on three. For 14 commands, 13 kinds of files and 3 kinds of
output these are 182 tests instead of 546.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any


def covering(*axes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Some of the product of the axes, in its order, with each pair of values of any two axes."""
    lengths = [len(axis) for axis in axes]
    places = list(itertools.combinations(range(len(axes)), 2))
    missing = {
        (i, j, a, b) for i, j in places for a in range(lengths[i]) for b in range(lengths[j])
    }

    def gained(row: tuple[int, ...]) -> int:
        return sum((i, j, row[i], row[j]) in missing for i, j in places)

    chosen = []
    while missing:
        i, j, a, b = min(missing)
        free = [range(n) if k not in (i, j) else [a if k == i else b]
                for k, n in enumerate(lengths)]  # fmt: skip
        row = max(itertools.product(*free), key=gained)
        chosen.append(row)
        missing -= {(i, j, row[i], row[j]) for i, j in places}
    return [tuple(axis[k] for axis, k in zip(axes, row, strict=True)) for row in sorted(chosen)]
