"""Whether a function that an author gives takes the arguments that it will be called with."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

# Those of an op that differ from one op to the next are in `parameters`.
_SAME = {
    "shape": ("inputs", "attributes"),
    "save": ("ctx", "inputs", "attributes", "output"),
    "vmap": ("op", "info", "in_dims", "inputs", "attributes"),
    "standard": ("g",),
    "quantized": ("attributes",),
    "upgrade": ("g",),
}


def parameters(kind: str, inputs: Sequence[str], outputs: Sequence[str]) -> tuple[str, ...]:
    """The names of the arguments, all by position, that the rule `kind` of an op gets.

    inputs, outputs: The names in the op's description, with the key of a random op.
    """
    if kind == "backward":
        return ("ctx", *(f"grad_{name}" for name in outputs))
    if kind == "jvp":
        return ("ctx", *(f"tangent_{name}" for name in inputs))
    return _SAME[kind]


def check(
    where: str, rules: Mapping[str, Any], inputs: Sequence[str], outputs: Sequence[str]
) -> None:
    """Refuses rules that are no functions, or that cannot be called as they will be.

    Without this, a wrong one would be noticed when it is first called: that of `standard` in an
    export, that of `jvp` perhaps never.

    Args:
        where: The beginning of the error, such as "prototype soft_clip".
        rules: "shape", "save", ... -> what the author gave.
        inputs, outputs: As in `parameters`.

    Raises:
        ValueError: It names the rule, its signature, and the arguments that it would get.
    """
    for kind, rule in rules.items():
        if not callable(rule):
            raise ValueError(f"{where}: {kind}: got {rule!r}, expected a function")
        taken = parameters(kind, inputs, outputs)
        refusal = refused_call(rule, taken, {})
        if refusal:
            shown = ", ".join(taken)
            raise ValueError(
                f"{where}: {kind}: got {title(rule)}, expected one that takes ({shown}), by "
                f"position: {refusal}"
            )


def refused_call(
    function: Callable[..., Any], positional: Sequence[str], named: Mapping[str, Any]
) -> str:
    """Why a function cannot be called with these arguments; "" if it can, or nobody knows."""
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):  # a ufunc, for example, has none; a wrong call will fail
        return ""
    try:
        signature.bind(*positional, **named)
    except TypeError as error:
        return str(error)
    return ""


def title(function: Callable[..., Any]) -> str:
    """A function with its signature: "backward(ctx)"."""
    name = getattr(function, "__name__", type(function).__name__)
    try:
        return f"{name}{inspect.signature(function)}"
    except (ValueError, TypeError):
        return name
