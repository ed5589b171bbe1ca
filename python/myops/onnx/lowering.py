"""Writes nodes of op libraries in standard operators: `lower`.

Example:
    >>> {node.domain for node in myops.onnx.lower("upscale.onnx").graph.node}
    {''}
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx

from myops import _author_errors, _given, _libraries, _shape_rule
from myops._checked import checked
from myops._description import OpInfo
from myops._op_parts import OutputInfo
from myops.onnx import module_paths, rule_mistakes
from myops.onnx.builder import Builder, LoweringError, Site
from myops.onnx.graph import files, other_opsets, scopes, storage, structure
from myops.onnx.schema import ELEMENT_TYPES, node_attributes

__all__ = ["Builder", "LoweringError", "lower"]


def __dir__() -> list[str]:
    return sorted(__all__)


def standard_hook(info: OpInfo) -> Callable[[Builder], list[str]] | None:
    """The function that writes the op in standard nodes; None when the op has none."""
    library = _libraries.find(info.domain)
    return None if library is None else library.standard_form(info)


def site_of(node: onnx.NodeProto, scope: scopes.Scope) -> Site:
    """What is known about the call that a node makes.

    A list like `scales` that is known to be empty counts as left out.
    """
    info = scopes.op_of(node)
    assert info is not None  # the caller asked is_ours
    names = [*node.input, *[""] * (len(info.inputs) - len(node.input))]
    for number, item in enumerate(info.inputs):
        if item.values and item.optional and scope.shape(names[number]) == [0]:
            names[number] = ""
    label = scopes.label(node, info)
    attributes = node_attributes(info, node, label)
    dtypes, shapes = [scope.dtype(name) for name in names], [scope.shape(name) for name in names]
    for number, item in enumerate(info.inputs):
        dims = shapes[number]
        if names[number] and item.values and (dims is None or not isinstance(dims[0], int)):
            shapes[number] = [_length(info, number, shapes, dtypes, attributes)]
    return Site(info, label, names, dtypes, shapes, [scope.value(n) for n in names], attributes)


def _length(
    info: OpInfo, number: int, shapes: list[Any], dtypes: list[str | None], attributes: Any
) -> int | None:
    """The only length of a list that the op's shape rule accepts; None when there are several."""
    if any(shape is None and dtype for shape, dtype in zip(shapes, dtypes, strict=True)):
        return None
    accepted = []
    for length in range(1, 2 * max(len(shape) for shape in shapes if shape) + 1):
        tried = [[length] if i == number else shape for i, shape in enumerate(shapes)]
        try:
            _shape_rule.infer(info, tried, dtypes, attributes)
        except ValueError:
            continue
        accepted.append(length)
    return accepted[0] if len(accepted) == 1 else None


def write(
    builder: Builder, outputs: list[str], form: Callable[[Builder], list[str]] | None = None
) -> list[onnx.NodeProto]:
    """The standard nodes for a call, which write to the given output names.

    form: The function that writes them. Default: the op's standard form.

    Raises:
        LoweringError: The op has no standard form, or none in this opset.
    """
    info = builder.site.info
    hook = form or standard_hook(info)
    if hook is None:
        builder.refuse(f"the op {info.name} has no standard form")
    builder.rule = "standard" if form is None else "upgrade"
    try:
        returned = hook(builder)
    except Exception as error:
        named = _author_errors.named(info.name, builder.rule, error)
        if named is None:
            raise
        raise named from error
    names = rule_mistakes.output_names(builder, returned)
    padded = [*outputs, *[""] * (len(info.outputs) - len(outputs))]
    for output, made, wanted in zip(info.outputs, names, padded, strict=True):
        if wanted and not made:  # left out, and named all the same
            made = _empty(builder, output)
        if wanted:
            _rename(builder, made, wanted)
    return _used(builder.nodes, outputs)


def _empty(builder: Builder, output: OutputInfo) -> str:
    """An empty tensor of the output's dtype."""
    site = builder.site
    pairs = zip(site.info.inputs, site.dtypes, strict=True)
    known = [dtype for item, dtype in pairs if item.type == output.type and dtype]
    dtype = (known or site.info.types[output.type])[0]
    empty = builder.constant(np.zeros(0, np.float32))
    return builder.op("Cast", empty, to=ELEMENT_TYPES[dtype])


def _used(nodes: list[onnx.NodeProto], outputs: list[str]) -> list[onnx.NodeProto]:
    """The nodes that the outputs need, because a formula may add nodes that it does not use."""
    needed = set(outputs) - {""}
    kept = []
    for node in reversed(nodes):
        if needed.intersection(node.output):
            needed.update(structure.reads(node))
            kept.append(node)
    return kept[::-1]


def _rename(builder: Builder, made: str, wanted: str) -> None:
    for node in builder.nodes:
        if made in node.output:
            break
    else:  # an input that goes straight through
        builder.nodes.append(onnx.helper.make_node("Identity", [made], [wanted]))
        return
    for node in builder.nodes:
        for names in (node.input, node.output):
            for place, name in enumerate(names):
                if name == made:
                    names[place] = wanted


@checked(opset="; the file to write is f=")
def lower(model: files.Model, opset: int | None = None, f: files.Target = None) -> onnx.ModelProto:
    """Replaces every node of ours, and of any other op library, by standard operators.

    The result runs in any ONNX runtime; the documentation of each op's `standard` says how speed
    and rounding differ. Nodes in branches and loop bodies are replaced too; model-local functions
    that call our nodes are inlined, and our function bodies are removed.

    Args:
        model: A path, the bytes of a file, or a ModelProto, with nodes of the domain "myops" or of
            a package's (`myops.op_library`). It is not changed.
        opset: The ai.onnx opset of the result; the model is converted when it has another one.
            Default: the model's.
        f: File to write: a path, or an object open for writing bytes. None: only return.

    Returns:
        A new model without these nodes and their domains.

    Raises:
        LoweringError: A node that the opset cannot express, or a model that cannot be converted.
        ValueError: There is no such opset.
        TypeError: The opset is no integer.

    Example:
        >>> standard = myops.onnx.lower("model.onnx", f="standard.onnx")
    """
    source = model
    if opset is not None:
        newest = onnx.defs.onnx_opset_version()
        opset = _given.whole("lower: opset", opset, 1, newest)
    model = scopes.inline_callers(storage.opened(source))
    if opset is not None and opset != scopes.onnx_opset(model):
        model = convert(model, opset)
    names = scopes.Names(model)
    read: set[str] = set()
    # Inner graphs first: replacing the nodes of an outer one copies what is inside them.
    for scope in reversed(list(scopes.all_scopes(model))):
        nodes: list[onnx.NodeProto] = []
        for node in scope.graph.node:
            if not scopes.is_ours(node):
                nodes.append(node)
                continue
            site = site_of(node, scope)
            prefix = node.name or node.output[0]
            builder = Builder(site, scope.opset, names.fresh, prefix)
            written = write(builder, list(node.output))
            module_paths.inherit(node, written)
            nodes.extend(written)
            read.update(node.input)
        if any(map(scopes.is_ours, scope.graph.node)):
            _replace(scope.graph, nodes)
    scopes.drop_unused(model, read)
    used = {node.domain for node in scopes.all_nodes(model.graph.node)}
    kept = [i for i in model.opset_import if i.domain in used or not _libraries.find(i.domain)]
    del model.opset_import[:]
    model.opset_import.extend(kept)
    storage.finish(model, source, f)
    return model


def _replace(graph: Any, nodes: list[onnx.NodeProto]) -> None:
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(kept)


def convert(model: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    """Converts the model to another ai.onnx opset; our own nodes do not change."""
    from onnx import version_converter

    try:
        converted = version_converter.convert_version(model, opset)
    except RuntimeError as error:
        raise LoweringError(
            f"the model cannot be converted from ai.onnx opset {scopes.onnx_opset(model)} to "
            f"{opset}: {other_opsets.why(error)}. {other_opsets.advice(opset)}"
        ) from error
    module_paths.restore(model, converted)
    return converted
