"""`register_symbolic`: how both of torch's exporters write an operator, in one function."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from myops.onnx.symbolics import registered_dynamo, registered_torchscript, registry


def register_symbolic(
    name: str,
    function: Callable[..., Any],
    *,
    opset: int | None = None,
    opset_range: tuple[int, int] | None = None,
) -> None:
    """Tells both of torch's exporters how to write an operator in ONNX.

    For `myops.onnx.export` and plain `torch.onnx.export`, with dynamo=True and False, eager and
    scripted models. Of several registrations for a name the one with the newest lowest opset
    that fits the export is taken, and among equals the last. Where none fits, torch's own
    translation is taken, and without one the export fails and names the opsets that are there.

    Args:
        name: A dispatcher operator, "namespace::name", such as "aten::asinh"; all its overloads,
            or one: "aten::add.Tensor".
        function: `function(g, *args, **kwargs)` gets what the operator was called with, defaults
            filled in: tensors as graph values, everything else as Python values, None for what
            was left out (keyword-only arguments by keyword; those at their default only when the
            function takes them). An int or float that is known at run time only is a graph value
            too. It returns a graph value, or a tuple of them for several outputs. `g` has

            - g.op(type, *inputs, outputs=1, **attributes): adds a node of a standard operator
              ("Asinh") or of another domain ("acme::Swish"); an input "" is left out. Returns
              the output, or a tuple of them;
            - g.constant(array): adds a constant;
            - g.list(items): a list of ints as one 1-D int64 value, also where some of the items
              are known at run time only;
            - g.dtype(value), g.shape(value): NumPy dtype and lengths where known, else None;
            - g.opset: the opset that nodes must belong to (exporter="dynamo" writes at least
              opset 18, and what was asked for is converted from it);
            - g.refuse(reason): fails, with the operator's name.
        opset: The lowest opset that the function is for. Default: all.
        opset_range: Lowest and highest opset, both included, instead of `opset`.

    Raises:
        ValueError: No operator has the name, or the opsets make no sense.

    Example:
        >>> myops.onnx.register_symbolic("aten::asinh", lambda g, x: g.op("Asinh", x), opset=9)
    """
    if opset is not None and opset_range is not None:
        raise ValueError("register_symbolic: got opset and opset_range, expected one of them")
    low, high = opset_range or (opset or registry.LOWEST, registry.HIGHEST)
    if not registry.LOWEST <= low <= high:
        raise ValueError(
            f"register_symbolic: {name}: got opsets {low} to {high}, expected lowest and highest, "
            f"{registry.LOWEST} or more"
        )
    if not callable(function):
        raise ValueError(f"register_symbolic: {name}: got {function!r}, expected a function")
    registry.overloads_of(name)  # raises where there is none
    registry.registered.setdefault(name, []).append(registry.Registration(function, (low, high)))
    registered_torchscript.install(name)
    registered_dynamo.install(name)


def unregister(name: str) -> None:
    """Takes back the last `register_symbolic` for a name."""
    functions = registry.registered[name]
    functions.pop()
    if not functions:
        del registry.registered[name]
        registered_torchscript.uninstall(name)
        registered_dynamo.uninstall(name)


@contextlib.contextmanager
def registered_for_now(functions: Mapping[str, Callable[..., Any]], opset: int) -> Iterator[None]:
    """Inside, these functions are registered, but for operators that somebody has registered."""
    taken = {name.partition(".")[0] for name in registry.names()}
    added = [name for name in functions if name not in taken]
    for name in added:
        register_symbolic(name, functions[name], opset=opset)
    try:
        yield
    finally:
        for name in added:
            unregister(name)


def translations(opset: int) -> dict[Any, Callable[..., Any]]:
    """What an export with exporter="dynamo" gives torch as custom_translation_table."""
    if not registry.registered:
        return {}
    return registered_dynamo.table(opset)
