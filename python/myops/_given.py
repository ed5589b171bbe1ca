"""Arguments of public functions: refused by name, before a library is called that would refuse them
in words of its own, or take them for something else."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from myops._text import printable, shorten


def whole(where: str, value: Any, least: int, most: int) -> int:
    """An integer within bounds; `where` is the function and the argument, "lower: opset"."""
    try:
        number = operator.index(value)
    except (TypeError, RuntimeError, NotImplementedError):  # the last two from tensors
        number = None
    bounds = f"an integer from {least} to {most}" if most < 2**31 else f"an integer from {least} on"
    if number is None or isinstance(value, bool):
        _refuse(TypeError, where, value, bounds)
    if not least <= number <= most:
        _refuse(ValueError, where, value, bounds)
    return int(number)


def names(where: str, value: Any) -> list[str]:
    """A list of strings; a single string is refused."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        _refuse(TypeError, where, value, "a list of names")
    if getattr(value, "ndim", 1) == 0:  # an array or tensor without axes
        _refuse(TypeError, where, value, "a list of names")
    found = list(value)
    for item in found:
        if not isinstance(item, str):
            _refuse(TypeError, where, item, "names, which are texts")
        if not item.isascii() and any("\ud800" <= letter <= "\udfff" for letter in item):
            _refuse(ValueError, where, item, "text that UTF-8 can encode")
    return found


def seconds(where: str, value: Any) -> float:
    """A time above 0."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError, NotImplementedError):
        _refuse(TypeError, where, value, "a number above 0")
    if isinstance(value, (str, bytes)):
        _refuse(TypeError, where, value, "a number above 0")
    if not 0 < number < float("inf"):
        _refuse(ValueError, where, value, "a number above 0")
    return number


def _refuse(kind: Callable[[str], Exception], where: str, got: Any, expected: str) -> NoReturn:
    raise kind(f"{where}: got {shorten(printable(repr(got)), 100)}, expected {expected}")
