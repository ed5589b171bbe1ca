"""Python numbers as arguments: refuses other objects by name, and never drops a fraction."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from myops._text import shorten

# Plain numbers are checked first, because asking whether another object is a tensor is slow.
PLAIN = frozenset((int, float))
INTEGERS = frozenset((int,))


def is_plain(items: Any, kinds: frozenset[type]) -> bool:
    """Whether it is a list or tuple of numbers only."""
    return type(items) in (list, tuple) and kinds.issuperset(map(type, items))


def integers(where: str, items: Any) -> list[Any]:
    """A sequence of integers as a list; symbolic ones, and tensors of integers, stay.

    `where` begins the refusal: "resize: sizes".
    """
    values = listed(where, items, "integers")
    return values if INTEGERS.issuperset(map(type, values)) else [integer(where, v) for v in values]


def integer(where: str, value: Any) -> Any:
    """One integer; a float is accepted if it has no fraction."""
    if isinstance(value, torch.SymInt):
        return value
    if isinstance(value, Tensor):
        if value.is_floating_point() or value.is_complex():
            _refuse(where, f"a tensor of {value.dtype}", "integers")
        return value
    try:
        return operator.index(value)
    except TypeError:
        pass
    # A SymFloat has no number to look at while a program is traced.
    if not isinstance(value, (str, bytes, torch.SymFloat)):
        try:
            whole = int(value)
        except (TypeError, ValueError, OverflowError):  # None, nan, inf
            _refuse(where, repr(value), "integers")
        if whole == value:
            return whole
    _refuse(where, repr(value), "integers")


def reals(where: str, items: Any) -> list[float]:
    """A sequence of numbers as floats."""
    values = listed(where, items, "numbers")
    return [_real(where, value) for value in values]


def _real(where: str, value: Any) -> float:
    if not isinstance(value, (str, bytes)):
        try:
            return float(value)
        except (TypeError, ValueError):
            pass
        except OverflowError:
            _refuse(where, shorten(repr(value), 60), "numbers that a float can be")
    _refuse(where, repr(value), "numbers")


def listed(where: str, items: Any, what: str) -> list[Any]:
    """Whether it is a sequence, but not a text, whose letters are no numbers."""
    if not is_several(items):
        _refuse(where, repr(items), f"a sequence of {what}")
    return list(items)


def is_several(items: Any) -> bool:
    """Whether it can be a list of numbers: an array or tensor without axes is a number."""
    listed = isinstance(items, Iterable) and not isinstance(items, (str, bytes))
    return listed and getattr(items, "ndim", 1) != 0


def refuse_no_numbers(where: str, value: Tensor) -> None:
    """Refuses a tensor whose elements would lose something as floats, or are no numbers."""
    if value.dtype is torch.bool or value.is_complex():
        _refuse(where, f"a tensor of {value.dtype}", "numbers of a floating or integer dtype")


def refuse_no_flag(where: str, value: Any, or_none: bool = False) -> None:
    """Refuses what is neither True nor False, and no tensor of one element that says so."""
    flags = (bool, int, np.bool_, torch.SymBool)
    if isinstance(value, flags) or (value is None and or_none):
        return
    if not isinstance(value, Tensor) or value.numel() != 1 or value.layout != torch.strided:
        _refuse(where, shorten(repr(value), 60), "a bool")


def refuse_no_tensor(where: str, value: Any) -> None:
    """Refuses what has no `dim`, such as an array of NumPy."""
    if not hasattr(value, "dim"):
        _refuse(where, type(value).__name__, "a Tensor")


def _refuse(where: str, got: str, expected: str) -> NoReturn:
    raise TypeError(f"{where}: got {got}, expected {expected}")
