"""`torch.special.erfcx` and `log_ndtr`, far from 0.

torch's newer exporter writes erfcx(x) as erfc(x) * exp(x^2), which is NaN above 13, and log_ndtr as
the logarithm of a probability, which rounds to 0 below -6. Both follow from a function that varies
little: with t = 1 / (1 + x / 2), log(erfcx(x) / t) for x >= 0 is nearly a polynomial of t.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from myops.onnx.symbolics import register
from myops.onnx.symbolics.in_float import in_float
from myops.onnx.symbolics.logarithms import log1p

_OPSET = 11
_DEGREE = 28  # the error is then that of float64
Constant = Callable[..., Any]


@contextlib.contextmanager
def registered() -> Iterator[None]:
    """In this context, both exporters write these so, unless a user has registered them."""
    functions: dict[str, Callable[..., Any]] = {
        "aten::special_erfcx": functools.partial(in_float, function=_erfcx),
        "aten::special_log_ndtr": functools.partial(in_float, function=_log_ndtr),
    }
    with register.registered_for_now(functions, _OPSET):
        yield


@functools.cache
def _coefficients() -> tuple[float, ...]:
    """Of Chebyshev polynomials of 2 t - 1; those that float64 cannot tell from 0 are left out."""

    def values(place: Any) -> Any:
        t = (place + 1) / 2
        x = torch.from_numpy(2 / t - 2)
        return torch.log(torch.special.erfcx(x)).numpy() - np.log(t)

    made = np.polynomial.chebyshev.chebinterpolate(values, _DEGREE)
    return tuple(made[: int(np.flatnonzero(abs(made) > 1e-16)[-1]) + 1].tolist())


def _parts(g: Any, constant: Constant, x: Any) -> tuple[Any, Any]:
    """t, and the logarithm of erfcx(x) / t, for x >= 0."""
    one, two = constant(1), constant(2)
    t = g.op("Div", one, g.op("Add", g.op("Mul", x, constant(0.5)), one))
    place = g.op("Sub", g.op("Mul", t, two), one)
    twice = g.op("Mul", place, two)
    first, *others = _coefficients()
    last = before = constant(0)
    for number in reversed(others):  # Clenshaw's recurrence
        step = g.op("Add", g.op("Sub", g.op("Mul", twice, last), before), constant(number))
        last, before = step, last
    return t, g.op("Add", g.op("Sub", g.op("Mul", place, last), before), constant(first))


def _erfcx(g: Any, constant: Constant, x: Any) -> Any:
    t, logarithm = _parts(g, constant, g.op("Abs", x))
    right = g.op("Mul", t, g.op("Exp", logarithm))
    power = g.op("Mul", constant(2), g.op("Exp", g.op("Mul", x, x)))
    return g.op("Where", g.op("Less", x, constant(0)), g.op("Sub", power, right), right)


def _log_ndtr(g: Any, constant: Constant, x: Any) -> Any:
    t, logarithm = _parts(g, constant, g.op("Mul", g.op("Abs", x), constant(0.5**0.5)))
    # The logarithm of the probability of a number below -|x|.
    half = g.op("Mul", g.op("Mul", x, x), constant(-0.5))
    logarithm = g.op("Add", g.op("Sub", logarithm, constant(np.log(2))), g.op("Log", t))
    tail = g.op("Add", logarithm, half)
    right = log1p(g, constant, g.op("Neg", g.op("Exp", tail)))
    return g.op("Where", g.op("Less", x, constant(0)), tail, right)
