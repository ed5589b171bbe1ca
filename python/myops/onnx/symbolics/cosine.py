"""`cosine_similarity` of short vectors.

PyTorch makes each norm at least eps, torch's older exporter the product of both: with vectors of
length 1e-6 and eps = 1e-8 its result is 10,000 times too small.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from myops.onnx.symbolics import register
from myops.onnx.symbolics.in_float import in_float, reduced

_OPSET = 11  # of negative axes


@contextlib.contextmanager
def registered() -> Iterator[None]:
    """In this context, both exporters write it so, unless a user has registered it."""
    with register.registered_for_now({"aten::cosine_similarity": _write}, _OPSET):
        yield


def _write(g: Any, x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    shapes = [g.shape(item) for item in (x1, x2)]
    known = all(shape is not None and all(isinstance(n, int) for n in shape) for shape in shapes)
    same = known and shapes[0] == shapes[1]
    return in_float(g, x1, x2, function=functools.partial(_cosine, dim=dim, eps=eps, same=same))


def _cosine(
    g: Any, constant: Callable[..., Any], x1: Any, x2: Any, dim: int, eps: float, same: bool
) -> Any:
    if not same:
        common = g.op("Shape", g.op("Mul", x1, x2))
        x1, x2 = (g.op("Expand", item, common) for item in (x1, x2))
    units = [
        g.op("Div", item, g.op("Max", reduced(g, "ReduceL2", item, dim, 18, 1), constant(eps)))
        for item in (x1, x2)
    ]
    return reduced(g, "ReduceSum", g.op("Mul", *units), dim, 13, 0)
