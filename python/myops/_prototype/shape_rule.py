"""The shape rule of a prototype: one Python function for calls, traces and shape inference."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from myops import _author_errors
from myops._op_parts import DecidedLength, Dim


class UnknownLengthError(Exception):
    """A rule needs a length that is unknown in the graph: nothing can be inferred."""


class Length:
    """A length that is not known: it has the name of a dimension, or none.

    What is computed with it is unknown too. Comparing it with anything but itself ends shape
    inference; the output's shape then stays unknown until the model runs.
    """

    def __init__(self, symbol: str = "") -> None:
        self.symbol = symbol

    def __repr__(self) -> str:
        return self.symbol or "?"

    def __hash__(self) -> int:
        return hash(self.symbol)

    def __eq__(self, other: object) -> bool:
        if self is other or (isinstance(other, Length) and self.symbol == other.symbol != ""):
            return True
        raise UnknownLengthError

    def _compute(self, *_: Any) -> Length:
        return Length()

    def _ask(self, *_: Any) -> Any:
        raise UnknownLengthError

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __neg__ = _compute
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __truediv__ = __rtruediv__ = _compute
    __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __int__ = __index__ = __float__ = _ask


@dataclass(frozen=True)
class RuleInput:
    """An input as a rule sees it: lengths and dtype (None when unknown), no numbers."""

    shape: tuple[Any, ...]
    dtype: str | None

    def dim(self) -> int:
        return len(self.shape)


def rule(
    shape: Callable[..., Any] | None, name: str, outputs: int, fixed: int | None = None
) -> Callable[..., list[list[Any] | None]]:
    """`shape(inputs, attributes)` as the C++ side calls a shape rule; None: it follows a text.

    `name` is that of the op, `outputs` the number of its outputs, `fixed` the number of inputs
    before a variadic one; None: there is none.
    """

    def run(
        shapes: Sequence[Sequence[Dim] | None],
        dtypes: Sequence[str | None],
        values: Sequence[Sequence[float] | None],
        attributes: dict[str, Any],
    ) -> list[list[Any] | None]:
        inputs: list[Any] = []
        for dims, dtype, given in zip(shapes, dtypes, values, strict=True):
            if dims is None:
                inputs.append(None)
            elif given is not None:
                whole = dtype is not None and dtype.startswith(("int", "uint"))
                inputs.append([int(number) for number in given] if whole else list(given))
            else:
                lengths = [dim if isinstance(dim, int) else Length(dim or "") for dim in dims]
                inputs.append(RuleInput(tuple(lengths), dtype))
        assert shape is not None
        if fixed is not None:
            inputs = [*inputs[:fixed], inputs[fixed:]]
        known = all(isinstance(dim, int) for dims in shapes if dims is not None for dim in dims)
        try:
            results = shape(inputs, attributes)
        except UnknownLengthError:
            return []
        except Exception as error:
            named = _author_errors.named(name, "the shape rule", error)
            if named is None:
                raise
            raise ValueError(str(named)) from error  # as what a rule in C++ refuses
        sequences = isinstance(results, (list, tuple)) and all(
            item is None or isinstance(item, (list, tuple)) for item in results
        )
        if not sequences or len(results) != outputs:
            raise ValueError(
                f"{name}: shape: got {results!r} from the rule, expected a list with the list of "
                f"the lengths of each output, of {outputs}"
            )
        return [
            None if result is None else [_dim(length, known, name) for length in result]
            for result in results
        ]

    return run


def _dim(length: Any, known: bool, name: str) -> Any:
    """A length for the C++ side; `known`: all lengths of the inputs are numbers."""
    if isinstance(length, Length):
        return length.symbol or None
    if isinstance(length, DecidedLength):
        return tuple(length)
    if length is None:
        return tuple(DecidedLength()) if known else None
    is_number = isinstance(length, numbers.Real)
    if not is_number or not 0 <= length < 2**63 or length != int(length):
        raise ValueError(
            f"{name}: shape: got the length {length!r} from the rule, expected an integer from 0 on"
        )
    return int(length)
