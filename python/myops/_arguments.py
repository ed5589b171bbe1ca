"""The arguments of a call, by position or by name, in the order of the description."""

from __future__ import annotations

import inspect
from typing import Any

from myops._description import OpInfo


def bound(
    info: OpInfo, given: tuple[Any, ...], named: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The same call with its inputs by position and its attributes by name.

    Positions count the inputs, then the attributes.

    Raises:
        TypeError: There are too many, or one is given twice.
    """
    inputs = [item.name for item in info.inputs]
    names = [*inputs, *(item.name for item in info.attributes)]
    if len(given) > len(names):
        raise TypeError(
            f"{info.name}: got {len(given)} arguments by position, expected {len(names)} at most"
        )
    values = dict(zip(names, given, strict=False))
    for name, value in named.items():
        if name in values:
            raise TypeError(
                f"{info.name}: {name}: got two values, one by position and one by name, expected "
                "one"
            )
        values[name] = value
    while inputs and inputs[-1] not in values:
        inputs.pop()
    return tuple([values.pop(name, None) for name in inputs]), values


def signature(info: OpInfo, takes_out: bool) -> inspect.Signature:
    """The signature of the function that `library.define` returns.

    takes_out: Whether the op writes its result into a given tensor.
    """
    one, by_name = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    shown = [
        inspect.Parameter(item.name, one, default=None if optional else inspect.Parameter.empty)
        for place, item in enumerate(info.inputs)
        for optional in [all(later.optional for later in info.inputs[place:])]
    ]
    # One that is required may follow others that are not, which a positional parameter may not.
    kind = by_name if any(item.required for item in info.attributes) else one
    shown += [
        inspect.Parameter(
            item.name, kind,
            default=inspect.Parameter.empty if item.required else item.short_default,
        )
        for item in info.attributes
    ]  # fmt: skip
    if info.random:
        shown.append(inspect.Parameter("generator", by_name, default=None))
    if takes_out:
        shown.append(inspect.Parameter("out", by_name, default=None))
    return inspect.Signature(shown)
