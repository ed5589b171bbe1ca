"""`edit`: changes names, attributes, op types and dimensions together, and checks the result."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import onnx

from myops._checked import callers_level, checked
from myops.onnx.graph import files, inference, renaming, scopes, storage, structure
from myops.onnx.graph.structure import GraphError, Index
from myops.onnx.surgery import _attributes, _dims


class StaleShapeWarning(UserWarning):
    """A constant in the model still fixes a length that was made dynamic.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     changed = myops.onnx.edit("flat.onnx", dims={("x", 0): "n"})
        >>> print(caught[0].message)
        edit: node that makes 'y' (Reshape) has the constant shape [2, 12], ...
    """


@checked()
def edit(
    model: files.Model,
    f: files.Target = None,
    *,
    rename: Mapping[str, str] | None = None,
    rename_nodes: Mapping[str, str] | None = None,
    attributes: Mapping[tuple[str, str], Any] | None = None,
    op_types: Mapping[str, str] | None = None,
    dims: Mapping[tuple[str, int], str | int] | None = None,
    check: bool = True,
) -> onnx.ModelProto:
    """Changes a model; the result is checked and its shapes are inferred again.

    All names in the arguments are those before the call. A node without a name is identified by the
    name of one of its outputs.

    Args:
        model: A path, the bytes of a file, or a ModelProto. It is not changed.
        f: File to write; nothing is written if an edit fails. None: only return.
        rename: {old: new} names of values, including inputs and outputs of the model. All nodes
            that read a value are changed, also inside bodies of If, Loop and Scan.
        rename_nodes: {old: new} names of nodes.
        attributes: {(node, attribute): value}. The value has the type in the op's schema, or is
            text such as "2,2" that is parsed as that type. None removes the attribute, so that it
            has its default.
        op_types: {node: op type}: "Sub", or with a domain "myops::Resize". The numbers of inputs
            and outputs and the attributes must fit the new op.
        dims: {(input, axis): length}: a name such as "batch" makes the dimension dynamic, a number
            fixes it. All shapes that depended on the old length are inferred again.
        check: Whether the result must pass onnx.checker and strict shape inference.

    Returns:
        The changed model. Function bodies of our nodes are written again where necessary.

    Raises:
        GraphError: A name does not exist or is used already, the schema does not have an attribute
            or op, or the result is not valid.

    Warns:
        StaleShapeWarning: A constant, such as the shape of a Reshape, fixes a dynamic length.

    Example:
        >>> changed = myops.onnx.edit("linear.onnx", op_types={"add": "Sub"}, dims={("x", 0): "n"})
    """
    proto = storage.load(model)
    graph = proto.graph
    nodes = {name: structure.find_node(graph, name, "edit") for name in _all_nodes(
        rename_nodes, attributes, op_types)}  # fmt: skip
    ours = any(map(scopes.is_body, proto.functions))
    rebuild = False
    for name, kind in (op_types or {}).items():
        rebuild |= scopes.is_ours(nodes[name])
        _attributes.set_op_type(proto, nodes[name], kind)
        rebuild |= scopes.is_ours(nodes[name])
        ours |= scopes.is_ours(nodes[name])
    for (name, attribute), value in (attributes or {}).items():
        _attributes.set_attribute(proto, nodes[name], attribute, value)
        rebuild |= scopes.is_ours(nodes[name])
    for name in op_types or ():
        _attributes.check_attributes(proto, nodes[name])
    notes = _dims.set_dims(proto, dims or {})
    for old, new in (rename_nodes or {}).items():
        _rename_node(proto, nodes[old], new)
    _rename_values(proto, rename or {})
    if attributes or op_types or dims:
        _dims.infer_anew(proto)
    _check(proto, model, check)
    if rebuild and ours:
        from myops.onnx.bodies import add_function_bodies

        proto = add_function_bodies(proto)
    for note in notes:
        warnings.warn(note, StaleShapeWarning, stacklevel=callers_level())
    storage.finish(proto, model, f)
    return proto


def _all_nodes(
    rename_nodes: Mapping[str, str] | None,
    attributes: Mapping[tuple[str, str], Any] | None,
    op_types: Mapping[str, str] | None,
) -> list[str]:
    named = [*(rename_nodes or {}), *(node for node, _ in attributes or {}), *(op_types or {})]
    return list(dict.fromkeys(named))


def _check(proto: onnx.ModelProto, before: files.Model, check: bool) -> None:
    reason = inference.problem(proto) if check else ""
    if not reason:
        return
    if earlier := inference.problem(storage.load(before)):
        raise GraphError(
            f"edit: the model was not valid before: {earlier}. Pass check=False to "
            "edit it all the same"
        )
    raise GraphError(f"edit: the result would not be a valid model: {reason}")


def _rename_node(proto: onnx.ModelProto, node: onnx.NodeProto, new: str) -> None:
    if not new:
        raise GraphError("edit: rename: got an empty name, expected a name")
    if any(other.name == new and other is not node for other in proto.graph.node):
        raise GraphError(f"edit: rename: another node is called {new!r} already")
    node.name = new


def _rename_values(proto: onnx.ModelProto, names: Mapping[str, str]) -> None:
    if not names:
        return
    index = Index(proto)
    for old, new in names.items():
        index.check(old, "edit: rename")
        if not new:
            raise GraphError(f"edit: rename: got an empty name for {old!r}, expected a name")
    taken = {
        name for graph in structure.graphs_of(proto.graph) for name in structure.defined(graph)
    }
    results = [*(taken - set(names)), *names.values()]
    for new in names.values():
        if results.count(new) > 1:
            raise GraphError(f"edit: rename: {new!r} is the name of another value already")
    renaming.rename_values(proto.graph, names)
