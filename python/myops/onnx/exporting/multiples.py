"""Conditions that hold for some lengths only: which multiples to write in dynamic_axes."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from myops.onnx.exporting.recorded import Axis, Condition, Recorded

# What torch says of such a condition.
UNSOLVED = r"cannot be\s+solved|[Nn]ot all values of .* satisfy the generated guard"
# The multiples that are tried: the strides of networks.
_MULTIPLES = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 24, 28, 32, 48, 56, 64, 128, 256)

_AXIS_NAMES = {2: "h", 3: "w"}


def advice(said: str, recorded: Recorded, dynamic: Sequence[Axis] = ()) -> str:
    """For a condition that holds for some lengths only: multiples for which torch.export can prove
    it.

    dynamic: The axes of the inputs that were to be dynamic.
    """
    if re.search(UNSOLVED, said) is None:
        return ""
    found: dict[str, dict[int, int]] = {}
    for condition in recorded.conditions:
        symbols = list(condition.relation.free_symbols)
        if len(symbols) == 1 and type(condition.relation).__name__ == "Equality":
            name, axis = _source(condition.environment, symbols[0])
            needed = _least_multiple(condition, symbols[0])
            if name and needed:
                axes = found.setdefault(name, {})
                axes[axis] = math.lcm(axes.get(axis, 1), needed)
    written = _written(found)
    if written:
        return (
            f"The lengths have to be multiples: say so with dynamic_axes={written} (or a larger "
            "multiple, such as the stride of the whole network), and with an example of such "
            "lengths."
        )
    several: dict[str, dict[int, int]] = {}
    for name, axis in dynamic:
        several.setdefault(name, {})[axis] = 32
    example = _written(several)
    return (
        "Where lengths have to be multiples, say so"
        + (f", such as of 32 with dynamic_axes={example}" if example else ' with "32*h" as a name')
        + ", and give an example of such lengths."
    )


def _written(multiples: dict[str, dict[int, int]]) -> str:
    """The value of dynamic_axes that declares these multiples; "" where there are none."""
    entries = []
    for name, axes in multiples.items():
        named = [f'{axis}: "{n}*{_AXIS_NAMES.get(axis) or f"n{axis}"}"'
                 for axis, n in sorted(axes.items()) if n > 1]  # fmt: skip
        if named:
            entries.append(f'"{name}": {{{", ".join(named)}}}')
    return f"{{{', '.join(entries)}}}" if entries else ""


def _least_multiple(condition: Condition, symbol: Any) -> int:
    """The smallest number all of whose multiples fulfil a condition; 0 if there is none."""
    for number in _MULTIPLES:
        if all(condition.holds({symbol: number * n}) for n in range(1, 20)):
            return number
    return 0


def _source(environment: Any, symbol: Any) -> tuple[str, int]:
    """The input and the axis whose length a symbol denotes."""
    for source in getattr(environment, "var_to_sources", {}).get(symbol, ()):
        name = source.name() if callable(source.name) else source.name
        match = re.search(r"\['(\w+)'\]\.size\(\)\[(\d+)\]", str(name))
        if match:
            return match.group(1), int(match.group(2))
    return "", 0
