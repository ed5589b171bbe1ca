"""Writes nodes of op libraries in standard operators: `lower`, and the `g` of `standard(g)`.

Example:
    >>> {node.domain for node in myops.onnx.lower("upscale.onnx").graph.node}
    {''}
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import onnx
from onnx import numpy_helper

from myops import _author_errors, _description, _dtypes, _given, _libraries, _shape_rule
from myops._checked import checked
from myops._description import OpInfo
from myops._names import choose
from myops._op_parts import Dim, OutputInfo
from myops.onnx import module_paths, rule_mistakes
from myops.onnx.arrays import Array
from myops.onnx.graph import files, inner_graphs, other_opsets, scopes, storage, structure
from myops.onnx.schema import ELEMENT_TYPES, attribute_proto, node_attributes

__all__ = ["Builder", "LoweringError", "lower"]


def __dir__() -> list[str]:
    return sorted(__all__)


class LoweringError(ValueError):
    """A node that the standard operators of an opset cannot express.

    The text names the node, the opset, the reason and what to do about it.

    Example:
        >>> try:
        ...     myops.onnx.lower("upscale.onnx", opset=8)
        ... except myops.onnx.LoweringError as error:
        ...     print(error)
        node 'y' (myops::Resize): cannot be written in ai.onnx opset 8: there is no Resize, ...
    """


@dataclass
class Site:
    """What is known about a call that has to be written in standard nodes."""

    info: OpInfo
    label: str  # for errors
    inputs: list[str]  # names in the graph; "" for what is left out
    dtypes: list[str | None]
    shapes: list[list[Dim] | None]
    values: list[np.ndarray | None]  # of constant inputs
    attributes: dict[str, Any]


class Builder:
    """The `g` of `standard(g)`: adds standard nodes, and says what is known about the call.

    opset: The version of ai.onnx that the nodes must belong to.
    hints: A Builder that may know more, namely the present lengths and numbers, on which a function
        body must not rely. Use it to choose between forms that are both right, never to add nodes.

    Example, 2a + b:
        >>> def standard(g):
        ...     two = g.constant(np.array(2, g.dtype("a")))
        ...     return [g.op("Add", g.op("Mul", g.input("a"), two), g.input("b"))]
    """

    def __init__(
        self,
        site: Site,
        opset: int,
        fresh: Callable[[str], str],
        prefix: str,
        hints: Builder | None = None,
    ) -> None:
        self.site = site
        self.opset = opset
        self.hints = hints or self
        self.rule = "standard"  # the function that adds the nodes, for errors
        self.nodes: list[onnx.NodeProto] = []
        self._fresh = fresh
        self._prefix = prefix

    def op(self, op_type: str, *inputs: str | Array, outputs: int = 1, **attributes: Any) -> Any:
        """Adds a node; returns the name of its output, or a tuple of names.

        Args:
            op_type: A standard operator of `opset`.
            inputs: Names or arrays (myops.onnx.arrays); "" leaves an optional input out.
            outputs: How many outputs the node has.
            attributes: Python values; None and empty lists are not written. The names in a graph
                (for example the body of a Scan) are made unique.
        """
        rule_mistakes.check_operator(self, op_type)
        given = rule_mistakes.input_names(self, op_type, inputs)
        hint = f"{self._prefix}/{op_type}" if self._prefix else op_type
        names = [self._fresh(hint) for _ in range(outputs)]
        written = {
            key: value
            for key, value in attributes.items()
            if value is not None and not (isinstance(value, (list, tuple)) and not value)
        }
        rule_mistakes.check_node(self, op_type, len(given), outputs, written)
        for key, value in written.items():
            if isinstance(value, onnx.GraphProto):
                written[key] = inner_graphs.with_own_names(value, self._fresh)
        self.nodes.append(onnx.helper.make_node(op_type, given, names, name=names[0], **written))
        return names[0] if outputs == 1 else tuple(names)

    def next(self, *inputs: str, **attributes: Any) -> Any:
        """Adds a node of the next version of the op; for `upgrade` of `Library.define`.

        Args:
            inputs: Names; "" leaves an optional input out.
            attributes: Python values; those that are not given have their defaults.

        Returns:
            The name of its output, or a tuple of names.
        """
        info = self.site.info
        library = _libraries.find(info.domain)
        later = [] if library is None else library.versions(info.onnx_type)
        later = [item for item in later if item.since_version > info.since_version]
        if not later:
            self.refuse(f"{info.node} has no version after {info.since_version}")
        target = later[0]
        known = {item.name: item for item in target.attributes}
        protos = [attribute_proto(known[choose(name, known, f"{target.name} has")], value)
                  for name, value in attributes.items() if value is not None]  # fmt: skip
        protos.append(onnx.helper.make_attribute(_description.VERSION, target.since_version))
        given = list(inputs)
        while given and not given[-1]:
            given.pop()
        names = [self._fresh(f"{self._prefix}/{info.onnx_type}") for _ in target.outputs]
        node = onnx.helper.make_node(info.onnx_type, given, names, names[0], domain=info.domain)
        node.attribute.extend(protos)
        self.nodes.append(node)
        return names[0] if len(names) == 1 else tuple(names)

    def constant(self, array: np.ndarray) -> str:
        """Adds a constant; returns its name."""
        array = np.asarray(array)
        if self.opset >= 9 or array.dtype.kind == "f":
            return self.op("Constant", value=numpy_helper.from_array(array))
        # Before opset 9 a Constant is floating.
        name = self.op("Constant", value=numpy_helper.from_array(array.astype(np.float64)))
        return self.op("Cast", name, to=onnx.helper.np_dtype_to_tensor_dtype(array.dtype))

    def input(self, name: str) -> str:
        """The graph name of an input, of a variadic one the first; "" if it is left out."""
        return self.site.inputs[self._place(name, "input")]

    def inputs(self, name: str) -> list[str]:
        """The graph names of a variadic input, one for each tensor."""
        if not self._is_list(name):
            self._place(name, "inputs")  # refuses a name that the op does not have
            rule_mistakes.refuse(
                self,
                f"g.inputs({name!r}): got an input of one tensor, expected a variadic one; "
                f"g.input({name!r}) is its name",
            )
        declared = [item.name for item in self.site.info.inputs]
        pairs = zip(declared, self.site.inputs, strict=True)
        return [used for item, used in pairs if re.fullmatch(rf"{name}_\d+", item)]

    def attribute(self, name: str) -> Any:
        """The value of an attribute: the node's, or the default; None for an optional one that
        the node does not have."""
        known = [item.name for item in self.site.info.attributes]
        rule_mistakes.check_name(self, "g.attribute", name, known)
        return self.site.attributes[name]

    def dtype(self, name: str) -> np.dtype:
        """The dtype of an input that is present; asking for another is an error."""
        place = self._place(name, "dtype")
        known = self.site.dtypes[place]
        if known is None and not self.site.inputs[place]:
            rule_mistakes.refuse(
                self,
                f"g.dtype({name!r}): got an input that the call leaves out, expected one that is "
                f"present: ask `if g.input({name!r}):` before",
            )
        if known is None:
            self.refuse(
                f"the dtype of {name} is unknown",
                "Give the inputs of the model their types and keep its value_info.",
            )
        return _dtypes.numpy_dtype(known)

    def shape(self, name: str) -> list[Dim] | None:
        """Lengths, names and None of an input; None if its rank is unknown or it is left out."""
        return self.site.shapes[self._place(name, "shape")]

    def value(self, name: str) -> np.ndarray | None:
        """The content of an input that is a constant; None otherwise, also if it is left out."""
        return self.site.values[self._place(name, "value")]

    def refuse(self, reason: str, remedy: str = "") -> NoReturn:
        """Raises LoweringError: this opset cannot express the node, because of `reason`."""
        raise LoweringError(
            f"{self.site.label}: cannot be written in ai.onnx opset {self.opset}: {reason}."
            + (f" {remedy}" if remedy else "")
        )

    def _is_list(self, name: str) -> bool:
        """Whether it is a variadic input, whose tensors have names with numbers here."""
        names = [item.name for item in self.site.info.inputs]
        return name not in names and f"{name}_0" in names

    def _place(self, name: str, asked: str) -> int:
        names = [item.name for item in self.site.info.inputs]
        if self._is_list(name):
            name = f"{name}_0"  # the first of a list
        rule_mistakes.check_name(self, f"g.{asked}", name, names)
        return names.index(name)


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
