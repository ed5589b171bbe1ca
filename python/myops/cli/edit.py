"""`myops edit`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated

import typer

from myops.cli import _console, _graphs

OPTIONS = {
    "check": "--no-check", "rename": "--rename", "rename_nodes": "--rename-node",
    "attributes": "--attribute", "op_types": "--op-type", "dims": "--dim",
}  # fmt: skip
Texts = list[str] | None


def edit(
    model: _graphs.Model,
    output: _graphs.Output,
    rename: Annotated[
        Texts, typer.Option(help="Rename a value, input or output.", metavar="OLD=NEW")
    ] = None,
    rename_node: Annotated[Texts, typer.Option(help="Rename a node.", metavar="OLD=NEW")] = None,
    attribute: Annotated[
        Texts,
        typer.Option(help="Set an attribute; lists as 2,2.", metavar="NODE:NAME=VALUE"),
    ] = None,
    unset: Annotated[
        Texts, typer.Option(help="Remove an attribute: its default holds.", metavar="NODE:NAME")
    ] = None,
    op_type: Annotated[
        Texts, typer.Option(help="Make a node another op: add1=Sub.", metavar="NODE=TYPE")
    ] = None,
    dim: Annotated[
        Texts,
        typer.Option(
            help="Length of an axis of an input: a name makes it dynamic, a number fixes it.",
            metavar="INPUT:AXIS=LENGTH",
        ),
    ] = None,
    no_check: Annotated[
        bool, typer.Option("--no-check", help="Write it even if it is not a valid model.")
    ] = False,
    json: _graphs.Json = False,
) -> None:
    """Change names, attributes, op types and dimensions of a model.

    Each option may be given several times. The result is checked and its shapes are inferred
    anew; if anything is wrong, no file is written. A node without a name is called by one of its
    outputs.

    Example: myops edit linear.onnx out.onnx --op-type add=Sub --dim x:0=batch

    Example: myops edit net.onnx out.onnx --attribute conv1:strides=2,2 --rename image=input
    """
    from myops.onnx.graph import files
    from myops.onnx.surgery.editing import edit as edit_

    writing = _graphs.Writing(model, output, json)
    known = _graphs.known_names(files.load(writing.source, weights=False))
    attributes: dict[tuple[str, str], str | None] = {}
    for text in attribute or ():
        node, name, value = _attribute(text, known)
        attributes[node, name] = value
    for text in unset or ():
        node, name = _graphs.split(text, ":", known, "NODE:NAME")
        attributes[node, name] = None
    dims: dict[tuple[str, int], str | int] = {}
    for text in dim or ():
        value, rest = _graphs.split(text, ":", known, "INPUT:AXIS=LENGTH")
        axis, equals, length = rest.partition("=")
        if not equals or not _is_number(axis):
            raise ValueError(f"got {text!r}, expected INPUT:AXIS=LENGTH such as x:0=batch")
        dims[value, int(axis)] = int(length) if _is_number(length) else length
    pairs = {
        option: dict(_graphs.split(text, "=", known, form) for text in texts or ())
        for option, texts, form in (
            ("rename", rename, "OLD=NEW"),
            ("rename_nodes", rename_node, "OLD=NEW"),
            ("op_types", op_type, "NODE=TYPE"),
        )
    }
    count = len(attributes) + len(dims) + sum(len(items) for items in pairs.values())
    if not count:
        raise ValueError("no edit was given; see myops edit --help")
    with _console.progress("editing"), _graphs.warned() as warnings:
        changed = edit_(
            writing.source,
            writing.file,
            **pairs,
            attributes=attributes,
            dims=dims,
            check=not no_check,
        )
    if json:
        _console.print_json({"output": str(output), "edits": count, "warnings": warnings,
                             "nodes": len(changed.graph.node)})  # fmt: skip
        return
    writing.say(f"{writing.name}: {count} edit{'s' * (count > 1)}")


def _attribute(text: str, known: Collection[str]) -> tuple[str, str, str]:
    form = "NODE:NAME=VALUE such as conv1:strides=2,2"
    nodes = [name for name in known if text.startswith(f"{name}:")]
    node = max(nodes, key=len, default=text.partition("=")[0].rpartition(":")[0])
    name, equals, value = text[len(node) + 1 :].partition("=")
    if not node or not name or not equals:
        raise ValueError(f"got {text!r}, expected {form}")
    return node, name, value


def _is_number(text: str) -> bool:
    return text.lstrip("-").isdigit()
