"""onnxscript's optimizer, with constants that are equal instead of near, and without one failure.

Its rules take a constant below 1e-8 for 0, so that x + 1e-9 becomes x, and one within 1e-5 of 1
for 1. torch's newer exporter runs it on every model.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

_ROUNDING = 2.0**-22  # a constant such as sqrt(2) is in the graph in float32


class _Exact:
    """The module `math` for the rules: what is no zero is not close to it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(math, name)

    @staticmethod
    def isclose(a: float, b: float, **tolerances: float) -> bool:
        whole = float(b).is_integer()  # neutral elements: x + 0, x * 1
        return a == b if whole else math.isclose(a, b, rel_tol=_ROUNDING)


@contextlib.contextmanager
def exact() -> Iterator[None]:
    """Inside, the optimizer leaves a node in place unless its constant is the one that it seeks.

    Where onnxscript has other names for it, the optimizer stays as it is; the check "numbers"
    finds what it does wrong.
    """
    from onnxscript.rewriter import _matcher

    with contextlib.ExitStack() as stack:
        if hasattr(_matcher, "math"):
            stack.enter_context(mock.patch.object(_matcher, "math", _Exact()))
        stack.enter_context(_splitting())
        yield


@contextlib.contextmanager
def _splitting() -> Iterator[None]:
    """Inside, a SplitToSequence of pieces of a computed size is left as it is."""
    from onnxscript.optimizer import _constant_folding as folding

    registry = getattr(folding, "registry", None)
    rules = getattr(registry, "op_evaluators", {}).get(("", "SplitToSequence"), [])
    with contextlib.ExitStack() as stack:
        for rule in rules:
            stack.enter_context(
                mock.patch.object(
                    rule, "function", functools.partial(_unless_computed, rule.function)
                )
            )
        yield


def _unless_computed(function: Callable[..., Any], node: Any, *rest: Any) -> Any:
    import onnx_ir as ir

    size = node.inputs[1] if len(node.inputs) > 1 else None
    if size is None or size.shape is None or len(size.shape) > 0:
        return function(node, *rest)
    known = ir.convenience.get_const_tensor(size) is not None
    return function(node, *rest) if known else None
