"""Mistakes in the functions that write an op in nodes, `standard(g)` and `upgrade(g)`: each error
names the op, what the function returned or asked for, what was expected, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

import onnx

from myops._names import near_misses
from myops.onnx.arrays import Array

if TYPE_CHECKING:
    from myops.onnx.builder import Builder


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


def check_node(
    g: Builder, op_type: str, inputs: int, outputs: int, attributes: Iterable[str]
) -> None:
    """Refuses a node that no runtime loads: one with a wrong number of inputs or outputs, or with
    attributes that the operator does not have, in this opset or in any."""
    names = list(attributes)
    schema = onnx.defs.get_schema(op_type, g.opset, "")
    wrong = _mistake(schema, inputs, outputs, names)
    if not wrong:
        return
    got, expected = wrong
    others = [s for s in onnx.defs.get_all_schemas_with_history()
              if s.name == op_type and not s.domain and not s.deprecated
              and not _mistake(s, inputs, outputs, names)]  # fmt: skip
    if not others:
        near = near_misses(got, list(schema.attributes)) if got in names else ""
        what = f"attribute {got}" if got in names else got
        refuse(g, f"g.op({op_type!r}): got {what}, expected {expected}.{near}")
    what = f"the attribute {got}" if got in names else got
    since = sorted(item.since_version for item in others)
    later = [version for version in since if version > g.opset]
    remedy = f"Write it for g.opset {g.opset} too"
    if later:
        remedy = f"Take opset {later[0]} or later, or write another node where g.opset is less"
    by = f"which `{g.rule}` of {g.site.info.name} writes with {what}"
    g.refuse(f"{op_type}, {by}, has {expected} there", f"{remedy}.")


def _mistake(schema: Any, inputs: int, outputs: int, names: list[str]) -> tuple[str, str] | None:
    """(got, expected) of a node that the schema does not allow."""
    for kind, count, least, most in (
        ("input", inputs, schema.min_input, schema.max_input),
        ("output", outputs, schema.min_output, schema.max_output),
    ):
        if not least <= count <= most:
            counts = f"{least}" if least == most else f"{least} to {most}"
            plural = "" if counts == "1" else "s"
            return f"{count} {kind}{'' if count == 1 else 's'}", f"{counts} {kind}{plural}"
    for name in names:
        if name not in schema.attributes:
            known = ", ".join(sorted(schema.attributes))
            return name, f"the attributes {known}" if known else "no attributes"
    for name, attribute in schema.attributes.items():
        if attribute.required and name not in names:
            return f"no attribute {name}", "one: it is required"
    return None


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
