"""Mistakes in the functions that write an op in nodes, `standard(g)` and `upgrade(g)`: each error
names the op, what the function returned or asked for, what was expected, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

import onnx

from myops._names import near_misses
from myops.onnx.arrays import Array

if TYPE_CHECKING:
    from myops.onnx.lowering import Builder


def refuse(g: Builder, what: str) -> NoReturn:
    """Raises the error. No LoweringError, which says that an opset lacks an operator."""
    raise ValueError(f"{g.site.info.name}: {g.rule}: {what}")


def check_name(g: Builder, asked: str, name: Any, known: Iterable[str]) -> None:
    """Refuses a name that the description does not have."""
    names = list(known)
    if name not in names:
        listed = ", ".join(map(repr, names)) or "none: the op has none"
        near = near_misses(name, names) if isinstance(name, str) and len(names) > 1 else ""
        refuse(g, f"{asked}({name!r}): got a name that the op does not have, expected "
                  f"{'one of ' if len(names) > 1 else ''}{listed}.{near}")  # fmt: skip


def check_operator(g: Builder, op_type: str) -> None:
    """Refuses what is no operator of ai.onnx, or none in this opset."""
    try:
        if not onnx.defs.get_schema(op_type, g.opset, "").deprecated:
            return
        why = f"{op_type} is deprecated there"
        remedy = f"Write other operators where g.opset is {g.opset} or more."
    except onnx.defs.SchemaError:
        history = [s for s in onnx.defs.get_all_schemas_with_history()
                   if s.name == op_type and not s.domain]  # fmt: skip
        if not history:
            near = near_misses(op_type, {s.name for s in onnx.defs.get_all_schemas()
                                         if not s.domain})  # fmt: skip
            refuse(g, f"g.op({op_type!r}): got no operator of ai.onnx, expected one.{near}")
        first = min(schema.since_version for schema in history)
        why = f"{op_type}, which `{g.rule}` of {g.site.info.name} writes, is new in opset {first}"
        remedy = f"Take opset {first} or later, or write other operators where g.opset is less."
    g.refuse(why, remedy)


def input_names(g: Builder, op_type: str, inputs: Iterable[Any]) -> list[str]:
    """The names of a node's inputs, without those left out at the end."""
    names = []
    for number, item in enumerate(inputs):
        if not isinstance(item, (str, Array)):
            hint = ' (what is left out is "")' if item is None else (
                ": a number is g.constant(np.array(number, dtype))"
            )  # fmt: skip
            refuse(g, f"g.op({op_type!r}): got {item!r} as input {number}, expected a name or an "
                      f"array of myops.onnx.arrays{hint}")  # fmt: skip
        names.append(item if isinstance(item, str) else item.name)
    while names and not names[-1]:
        names.pop()
    return names


def output_names(g: Builder, returned: Any) -> list[str]:
    """The names of the op's outputs, as its function returned them."""
    info = g.site.info
    titles = ", ".join(item.name for item in info.outputs)
    expected = f"a list with one name for each output: [{titles}]"
    if not isinstance(returned, (list, tuple)):
        refuse(g, f"got {returned!r}, expected {expected}")
    if len(returned) != len(info.outputs):
        refuse(g, f"got {len(returned)} names, expected {expected}")
    written = {name for node in g.nodes for name in node.output} | {*g.site.inputs, ""}
    names = []
    for item, declared in zip(returned, info.outputs, strict=True):
        name = item.name if isinstance(item, Array) else item
        if name not in written:
            refuse(g, f"got {name!r} for {declared.name}, expected what g.op(...) or g.input(...) "
                      "returned")  # fmt: skip
        if not name and not declared.only_if:
            refuse(g, f'got "" for {declared.name}, expected a name: only an output with only_if '
                      "may be left out")  # fmt: skip
        names.append(name)
    return names
