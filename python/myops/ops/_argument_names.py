"""Refusals of an op in the words of the function that called it.

The description of an op has the names of its ONNX node, "X" and "scales". A function with other
arguments, such as `interpolate(input, scale_factor=...)`, tells its caller about those.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any


def in_words_of(
    function: str, op: str, names: Mapping[str, str], error: Exception
) -> Exception | None:
    """The error of `function` for a refusal of `op`; None for any other error.

    Args:
        names: Arguments of the op -> what stands in their place: a name, or a name and the
            beginning of what it got.
    """
    # No subclass: those of torch mean something else than a refusal, such as too little memory.
    if type(error) not in (RuntimeError, TypeError, ValueError):
        return None
    text = str(error)
    found = re.match(rf"{op}: (\w+): got ", text)
    if found is None:
        return None
    told = names.get(found[1], found[1])
    told = told if ": got " in told else f"{told}: got "
    rest = text[found.end() :]
    for name, new in names.items():  # "where X is", "channels of X"; but "[N, C, H, W]" stays
        if name[0].isupper():
            rest = re.sub(rf"\b(where|as|of) {name}\b", rf"\1 {new}", rest)
    made: Any = type(error)(f"{function}: {told}{rest}")
    return made
