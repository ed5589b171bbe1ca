"""`unflatten`, whose result has constant lengths in files of torch's older exporter.

torch.nn.MultiheadAttention calls it on the results of its projections.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from myops.onnx.symbolics import register

_OPSET = 11


@contextlib.contextmanager
def registered() -> Iterator[None]:
    """In this context, the older exporter keeps the lengths dynamic, unless a user has registered
    the operator."""
    with register.registered_for_now({"aten::unflatten.int": _write}, _OPSET):
        yield


def _write(g: Any, x: Any, dim: Any, sizes: Any) -> Any:
    lengths = g.shape(x)
    if lengths is None:
        g.refuse("the number of axes of its input is not known here")
    dim = int(dim) % len(lengths)
    behind = range(dim + 1, len(lengths))
    if _are_numbers(sizes) and not behind:
        # 0: as in the input. torch's own inference of shapes wants -1 where there is 0.
        kept = [0] * dim if -1 in sizes else [0] * (dim - 1) + [-1] * (dim > 0)
        return g.op("Reshape", x, g.constant(np.array([*kept, *sizes], np.int64)))
    shape = g.op("Shape", x)
    inner = g.list(sizes) if isinstance(sizes, (list, tuple)) else sizes
    parts = [_part(g, shape, range(dim)), inner, _part(g, shape, behind)]
    return g.op("Reshape", x, g.op("Concat", *[part for part in parts if part is not None], axis=0))


def _are_numbers(sizes: Any) -> bool:
    return isinstance(sizes, (list, tuple)) and all(isinstance(item, int) for item in sizes)


def _part(g: Any, shape: Any, axes: range) -> Any:
    return g.op("Gather", shape, g.constant(np.array(axes, np.int64))) if len(axes) else None
