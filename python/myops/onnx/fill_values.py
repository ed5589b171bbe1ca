"""Fill values: numbers such as -1e9 that a model writes to masked elements.

They dominate a mean magnitude or a norm, so errors of the other elements would not be noticed.
"""

from __future__ import annotations

import math

import numpy as np

# Fill values are this large, this many times larger than the next smaller element, and only a few
# different ones, which repeat (-1e9 and -2e9 if two masks are added; almost equal ones if scores
# are added to them).
_LEAST, _GAP, _KINDS = 1e3, 1e3, 4


def least(values: np.ndarray) -> float:
    """The smallest magnitude of a fill value; infinity if there is none.

    Example:
        >>> least(np.float32([0.5, -1e9, 2.0, -1e9]))
        1000000000.0
    """
    size = np.abs(values.astype(np.float64))
    ordered = np.sort(size[np.isfinite(size)])
    gaps = np.flatnonzero((ordered[1:] >= _LEAST) & (ordered[1:] >= _GAP * ordered[:-1]))
    if not gaps.size:
        return math.inf
    fills = ordered[gaps[0] + 1 :]
    kinds = np.unique(np.round(np.log2(fills), 1)).size
    return float(fills[0]) if kinds <= min(_KINDS, fills.size // 2) else math.inf
