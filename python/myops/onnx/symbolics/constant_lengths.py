"""Finds the lengths of an operator's results that are equal for all lengths of its inputs.

A trace knows only the lengths of the example, and torch's exporter computes with every length that
is declared for a value. For a node without shape inference, only lengths that cannot change may be
declared. The operator's fake kernel tells which: it is called with symbols for the dynamic lengths,
and a length of its results that is no symbol is constant. A fake kernel that reads a length as a
number returns a number too; calling it with three different lengths shows that it is not constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    ShapeEnv,
    StatelessSymbolicContext,
)

# Stand for numbers that the graph computes.
INTEGER, FLOAT = object(), object()


# For each of the attempts: the number for an unknown length, and the number added to dynamic ones.
_UNKNOWN, _LONGER = 16, (0, 1, 13)


class TensorArgument:
    """A tensor among the arguments: the example's lengths, and which of them are constant.

    example: The lengths of the example; None for an unknown length.
    lengths: The constant lengths; None for a dynamic length.
    """

    def __init__(
        self,
        example: Sequence[int | None],
        dtype: torch.dtype,
        lengths: Sequence[int | None] | None,
    ) -> None:
        self.example, self.dtype = example, dtype
        known = lengths if lengths is not None and len(lengths) == len(example) else None
        self.lengths = list(known) if known is not None else [None] * len(example)


def of_results(
    overload: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any]
) -> list[list[int | None]] | None:
    """The constant lengths of each result; None if they cannot be found.

    Args:
        args, kwargs: As for a call, with `TensorArgument` for tensors, INTEGER and FLOAT.
    """
    attempts = [_attempt(overload, args, kwargs, longer) for longer in _LONGER]
    known = [item for item in attempts if item is not None]
    if len(known) < len(attempts):
        return None
    first, *others = known
    if any(list(map(len, other)) != list(map(len, first)) for other in others):
        return None
    return [
        [item if all(other[k][axis] == item for other in others) else None
         for axis, item in enumerate(lengths)]
        for k, lengths in enumerate(first)
    ]  # fmt: skip


def _attempt(
    overload: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any], longer: int
) -> list[list[int | None]] | None:
    environment = ShapeEnv(specialize_zero_one=False, duck_shape=False)
    mode = FakeTensorMode(shape_env=environment)
    given = [_fake(mode, environment, item, longer) for item in args]
    named = {key: _fake(mode, environment, item, longer) for key, item in kwargs.items()}
    try:
        with mode:
            result = overload(*given, **named)
    except Exception:  # the operator's author wrote the fake kernel: there may be none, or one that
        return None  # needs a number that the graph computes; its errors have no common base class
    results = result if isinstance(result, (list, tuple)) else [result]
    return [
        [_constant(length) for length in item.shape] if isinstance(item, torch.Tensor) else []
        for item in results
    ]


def _fake(mode: FakeTensorMode, environment: ShapeEnv, item: Any, longer: int) -> Any:
    if isinstance(item, (list, tuple)):
        return [_fake(mode, environment, one, longer) for one in item]
    if item is INTEGER:
        return environment.create_unbacked_symint()
    if item is FLOAT:
        return environment.create_unbacked_symfloat()
    if not isinstance(item, TensorArgument):
        return item
    lengths = [
        (old or _UNKNOWN) + longer if constant is None else constant
        for old, constant in zip(item.example, item.lengths, strict=True)
    ]
    dims = [DimDynamic.DYNAMIC if n is None else DimDynamic.STATIC for n in item.lengths]
    return mode.from_tensor(
        torch.empty(lengths, dtype=item.dtype),  # whose memory nobody touches
        symbolic_context=StatelessSymbolicContext(dynamic_sizes=dims),
    )


def _constant(length: Any) -> int | None:
    return length if isinstance(length, int) else length.node.maybe_as_int()
