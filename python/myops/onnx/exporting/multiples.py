"""Conditions that hold for some lengths only: which multiples to write in dynamic_axes."""

from __future__ import annotations

import math
import re
from typing import Any

from myops.onnx.exporting.recorded import Condition, Recorded

# What torch says of such a condition.
UNSOLVED = r"cannot be\s+solved|[Nn]ot all values of .* satisfy the generated guard"
# The multiples that are tried: the strides of networks.
_MULTIPLES = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 24, 28, 32, 48, 56, 64, 128, 256)

_AXIS_NAMES = {2: "h", 3: "w"}


def advice(said: str, recorded: Recorded) -> str:
    """For a condition that holds for some lengths only: multiples for which torch.export can prove
    it."""
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
    entries = [
        f'"{name}": {{'
        + ", ".join(
            f'{a}: "{n}*{_AXIS_NAMES.get(a, "n")}"' for a, n in sorted(axes.items()) if n > 1
        )
        + "}"
        for name, axes in found.items()
        if any(n > 1 for n in axes.values())
    ]
    if not entries:
        return (
            "Where lengths have to be multiples, say so: dynamic_axes="
            '{"x": {2: "32*h", 3: "32*w"}}, with the name of the input and an example of such '
            "lengths."
        )
    return (
        "The lengths have to be multiples: say so with dynamic_axes={" + ", ".join(entries) + "} "
        "(or a larger multiple, such as the stride of the whole network), and with an example of "
        "such lengths."
    )


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
