"""Arrays of any shape, dtype and memory layout, for hypothesis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from runtimes import random_array

FLOATS = ("float16", "bfloat16", "float32", "float64")
# Of results of a few roundings in the dtype, against float64.
TOLERANCES = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 3e-5, "float64": 1e-11}

seeds = st.integers(0, 2**32 - 1)


@st.composite
def layouts(draw: Any, array: np.ndarray) -> np.ndarray:
    """The same numbers with other strides: axes in another order in memory, gaps, backwards."""
    order = draw(st.permutations(range(array.ndim)))
    steps = [draw(st.sampled_from([1, 1, 2, -1, -2])) for _ in range(array.ndim)]
    lengths = [length * abs(step) for length, step in zip(array.shape, steps, strict=True)]
    store = np.zeros([lengths[axis] for axis in order], array.dtype)
    whole = store.transpose(np.argsort(order))
    view = whole[(*(slice(None, None, step) for step in steps), ...)]
    view[...] = array
    return view


@st.composite
def arrays(draw: Any, shape: Sequence[int], dtype: str) -> np.ndarray:
    array = random_array(np.random.default_rng(draw(seeds)), tuple(shape), dtype)
    return draw(layouts(array))


def plain(array: np.ndarray | None) -> np.ndarray | None:
    """Row-major."""
    return None if array is None else np.array(array, order="C")


def wide(array: np.ndarray | None) -> np.ndarray | None:
    return None if array is None else np.asarray(array, np.float64)
