"""`register_symbolic`: how both of torch's exporters write an operator, in one function."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from myops._checked import checked
from myops.onnx.symbolics import registered_dynamo, registered_torchscript, registry


@checked()
def register_symbolic(
    name: str,
    function: Callable[..., Any],
    *,
    opset: int | None = None,
    opset_range: tuple[int, int] | None = None,
) -> None:
    """Tells both of torch's exporters how to write an operator in ONNX.

    It works for `myops.onnx.export` and plain `torch.onnx.export`, with dynamo=True and False, for
    eager and scripted models. If a name has several registrations for the opset of the export, the
    one with the highest lowest opset is used, and among equals the last. If none is for this opset,
    torch's own translation is used; without one the export fails, and the error names the opsets
    that are registered.

    Args:
        name: A dispatcher operator, "namespace::name", such as "aten::asinh"; all its overloads,
            or one: "aten::add.Tensor".
        function: `function(g, *args, **kwargs)` gets the arguments of the operator with defaults
            filled in: tensors as graph values, everything else as Python values, None for an
            argument that was left out (keyword-only arguments by keyword; those with their default
            value only if the function has such a parameter). An int or float that is known at run
            time only is a graph value too. It returns a graph value, or a tuple of them for several
            outputs. `g` has

            - g.op(type, *inputs, outputs=1, **attributes): adds a node of a standard operator
              ("Asinh") or of another domain ("acme::Swish"); an input "" is left out. Returns
              the output, or a tuple of them;
            - g.constant(array): adds a constant;
            - g.list(items): a list of ints as one 1-D int64 value, even if some of the items are
              known at run time only;
            - g.dtype(value), g.shape(value): NumPy dtype and lengths where known, else None;
            - g.opset: the opset that nodes must belong to (exporter="dynamo" writes at least
              opset 18 and then converts the model to the requested opset);
            - g.refuse(reason): raises an error with the operator's name and the reason.
        opset: The lowest opset that the function is for. Default: all.
        opset_range: Lowest and highest opset, both included, instead of `opset`.

    Raises:
        ValueError: No operator has the name, or the opsets are invalid.

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
    """Undoes the last `register_symbolic` for a name."""
    functions = registry.registered[name]
    functions.pop()
    if not functions:
        del registry.registered[name]
        registered_torchscript.uninstall(name)
        registered_dynamo.uninstall(name)


@contextlib.contextmanager
def registered_for_now(functions: Mapping[str, Callable[..., Any]], opset: int) -> Iterator[None]:
    """In this context, these functions are registered, except for operators that a user has
    registered."""
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
    """The custom_translation_table that an export with exporter="dynamo" passes to torch."""
    if not registry.registered:
        return {}
    return registered_dynamo.table(opset)
