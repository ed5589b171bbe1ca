"""Makes onnxscript's optimizer compare constants exactly, and avoids one failure of it.

Its rules treat a constant below 1e-8 as 0, so that x + 1e-9 becomes x, and one within 1e-5 of 1 as
1. torch's newer exporter runs it on every model.
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
    """Replaces the module `math` in the rules: `isclose` is true for equal numbers only."""

    def __getattr__(self, name: str) -> Any:
        return getattr(math, name)

    @staticmethod
    def isclose(a: float, b: float, **tolerances: float) -> bool:
        whole = float(b).is_integer()  # neutral elements: x + 0, x * 1
        return a == b if whole else math.isclose(a, b, rel_tol=_ROUNDING)


@contextlib.contextmanager
def exact() -> Iterator[None]:
    """In this context, the optimizer removes a node only if its constant is exactly 0 or 1.

    If a version of onnxscript has other names, the optimizer is not changed; the check "numbers"
    then finds its mistakes.
    """
    from onnxscript.rewriter import _matcher

    with contextlib.ExitStack() as stack:
        if hasattr(_matcher, "math"):
            stack.enter_context(mock.patch.object(_matcher, "math", _Exact()))
        stack.enter_context(_splitting())
        yield


@contextlib.contextmanager
def _splitting() -> Iterator[None]:
    """In this context, a SplitToSequence into pieces of a computed size is not changed."""
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
