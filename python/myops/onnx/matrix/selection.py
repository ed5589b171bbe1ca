"""Parses the part of a matrix to measure, as users write it."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping, Sequence
from typing import Any

from myops._names import choose


def opsets(text: str, first: int, newest: int) -> list[int]:
    """ "9,11-13,20-" as numbers; everything from `first` to `newest` for "".

    Raises:
        ValueError: The text has another form, or the installed onnx does not know an opset.
    """
    if not text.strip():
        return list(range(first, newest + 1))
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d*)\s*(-?)\s*(\d*)\s*", part)
        if not match or not (match[1] or match[3]) or (match[3] and not match[2]):
            raise ValueError(f"--opsets: got {part.strip()!r}, expected e.g. 17, 11-20 or 13-")
        low = int(match[1] or first)
        high = int(match[3] or newest) if match[2] else low
        if low > high:
            raise ValueError(f"--opsets: got {part.strip()!r}, expected the lower opset first")
        if high > newest:
            raise ValueError(
                f"--opsets: got {part.strip()!r}, but the newest opset that the installed onnx "
                f"knows is {newest}"
            )
        found.update(range(low, high + 1))
    return sorted(found)


def rows(given: Mapping[str, Any], wanted: Sequence[str]) -> dict[str, Any]:
    """The rows with one of the names; * in a name matches any text.

    Raises:
        ValueError: No row has the name; the message lists similar names.
    """
    if not wanted:
        return dict(given)
    names: list[str] = []
    for pattern in wanted:
        if pattern in given:
            names.append(pattern)
            continue
        found = fnmatch.filter(given, pattern) if "*" in pattern else []
        names.extend(found or [choose(pattern, given, "--case: there is")])
    return {name: given[name] for name in given if name in names}
