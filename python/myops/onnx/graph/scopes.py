"""Visits all lists of nodes in a model, with what is known about their values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnx.inliner
from onnx import numpy_helper

from myops import _libraries
from myops._description import OpInfo
from myops._op_parts import Dim
from myops._text import printable
from myops.onnx.graph.propagation import infer_shapes
from myops.onnx.graph.weights import SMALL, without_weights
from myops.onnx.schema import DTYPES, dims_of, node_attributes, register_schemas

# Nodes that exporters write between a constant and the node that reads it.
_FOLDABLE = ("Identity", "Cast", "Concat", "Reshape", "Squeeze", "Unsqueeze")


class Scope:
    """One list of nodes: the graph, or a branch or loop body inside it."""

    def __init__(self, graph: Any, inferred: Any, opset: int, outer: Scope | None) -> None:
        self.graph = graph
        self.inferred = inferred  # the same graph after shape inference
        self.opset = opset
        self._outer = outer
        values = [*inferred.input, *inferred.output, *inferred.value_info]
        self._types = {item.name: item.type.tensor_type for item in values}
        self._others = {item.name for item in values
                        if item.type.WhichOneof("value") not in ("tensor_type", None)}  # fmt: skip
        inputs = {item.name for item in graph.input}
        self._initializers = {t.name: t for t in graph.initializer if t.name not in inputs}
        for tensor in graph.initializer:
            stated = onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
            self._types[tensor.name] = stated.tensor_type
        self._producers = {name: node for node in graph.node for name in node.output}
        self._local = inputs | set(self._producers)

    def owns(self, name: str) -> bool:
        """Whether the value comes from a node or an input of this graph, not of one around it."""
        return name in self._local

    def dtype(self, name: str) -> str | None:
        """The dtype of a value, e.g. "float32"; None when unknown."""
        found = self._type(name)
        return None if found is None else DTYPES.get(found.elem_type)

    def elem_type(self, name: str) -> int:
        """The element type of a value that is a tensor, as in TensorProto; 0 when unknown."""
        found = self._type(name)
        return 0 if found is None else int(found.elem_type)

    def is_other(self, name: str) -> bool:
        """Whether a value of this graph is known to be no tensor: a sequence, an optional."""
        return name in self._others

    def shape(self, name: str) -> list[Dim] | None:
        """Lengths, names and None; None when not even the rank is known."""
        found = self._type(name)
        return None if found is None else dims_of(found)

    def value(self, name: str) -> np.ndarray | None:
        """The content of a small constant; None for anything else."""
        if name in self._initializers:
            tensor = self._initializers[name]
            if tensor.data_location == onnx.TensorProto.EXTERNAL or np.prod(tensor.dims) > SMALL:
                return None
            return _array(tensor, f"initializer {name!r}")
        if name in self._producers:
            return self._folded(self._producers[name])
        return self._outer.value(name) if self._outer and name not in self._local else None

    def _type(self, name: str) -> Any:
        if name in self._types:
            return self._types[name]
        return self._outer._type(name) if self._outer and name not in self._local else None

    def _folded(self, node: onnx.NodeProto) -> np.ndarray | None:
        if node.domain not in ("", "ai.onnx"):
            return None
        if node.op_type == "Constant":
            return _constant_value(node)
        if node.op_type not in _FOLDABLE:
            return None
        known = {name: self.value(name) for name in node.input if name}
        if any(value is None for value in known.values()):
            return None
        try:
            return _evaluate(node, known, self.opset)
        except Exception:  # of an invalid node; what the evaluator raises has no common base
            return None


def _constant_value(node: onnx.NodeProto) -> np.ndarray | None:
    kinds = {"value_float": np.float32, "value_floats": np.float32,
             "value_int": np.int64, "value_ints": np.int64}  # fmt: skip
    attribute = next(iter(node.attribute), None)
    if attribute is None:
        return None
    if attribute.name == "value":
        small = np.prod(attribute.t.dims) <= SMALL
        return _array(attribute.t, f"constant {[*node.output][:1]}") if small else None
    if attribute.name not in kinds or attribute.ref_attr_name:
        return None
    return np.array(onnx.helper.get_attribute_value(attribute), kinds[attribute.name])


def _array(tensor: onnx.TensorProto, what: str) -> np.ndarray:
    """The array of a tensor.

    Raises:
        ValueError: The tensor is damaged, or of a dtype that this onnx does not have.
    """
    try:
        return np.asarray(numpy_helper.to_array(tensor))
    except Exception as error:  # what onnx raises has no common base
        if tensor.data_type not in onnx.TensorProto.DataType.values()[1:]:
            got = f"the element type {tensor.data_type}, expected one that ONNX has"
        else:
            got = f"data that cannot be read ({error}), expected as many as its shape says"
        raise ValueError(f"{what}: got {got}") from error


def _evaluate(node: onnx.NodeProto, known: dict[str, Any], opset: int) -> np.ndarray:
    from onnx.reference import ReferenceEvaluator

    inputs = [onnx.helper.make_tensor_value_info(name, 0, None) for name in known]
    outputs = [onnx.helper.make_tensor_value_info(node.output[0], 0, None)]
    graph = onnx.helper.make_graph([node], "fold", inputs, outputs)
    imports = [onnx.helper.make_opsetid("", opset)]
    model = onnx.helper.make_model(graph, opset_imports=imports)
    return next(iter(ReferenceEvaluator(model).run(None, known)))


def onnx_opset(model: onnx.ModelProto) -> int:
    """The model's version of the standard operators."""
    for item in model.opset_import:
        if item.domain in ("", "ai.onnx"):
            return item.version
    raise ValueError("myops.onnx: the model imports no version of the domain ai.onnx, expected one")


def is_ours(node: onnx.NodeProto) -> bool:
    """Whether a node is an op of ours, or of another op library that describes its ops to us."""
    return op_of(node) is not None


def op_of(node: onnx.NodeProto) -> OpInfo | None:
    """The op that a node calls; None when no op library has it.

    Where its last input is variadic, it has one input for each that the node has.
    """
    info = _libraries.op_of(node)
    return None if info is None else info.expanded(len(node.input))


def needs_pyops(model: onnx.ModelProto) -> bool:
    """Whether a node is that of a prototype without a function body, which no library can run."""
    bodies = {(f.domain, f.name) for f in model.functions}
    lists = [model.graph.node, *(f.node for f in model.functions)]
    infos = [op_of(node) for nodes in lists for node in all_nodes(nodes)]
    return any(
        info is not None and info.is_prototype and (info.domain, info.onnx_type) not in bodies
        for info in infos
    )


def all_scopes(model: onnx.ModelProto) -> Iterator[Scope]:
    """The graph of a model and every graph inside it, outer ones first.

    Raises:
        ValueError: The model is invalid, for example a domain is not imported, or an attribute of a
            node of an op library is of another kind.
    """
    register_schemas(model)
    for node in all_nodes(model.graph.node):
        info = op_of(node)
        if info is not None:
            _check(node, info)
    try:
        inferred = infer_shapes(small(model))
    except (onnx.shape_inference.InferenceError, ValueError) as error:
        if type(error) not in (onnx.shape_inference.InferenceError, ValueError):
            raise  # of one of our rules, which says which op is meant
        raise ValueError(f"myops.onnx: the model is not valid: {printable(error)}") from error
    yield from _nested(model.graph, inferred.graph, onnx_opset(model), None)


def _nested(graph: Any, inferred: Any, opset: int, outer: Scope | None) -> Iterator[Scope]:
    scope = Scope(graph, inferred, opset, outer)
    pairs = [
        (ours.g, theirs.g)
        for node, counterpart in zip(graph.node, inferred.node, strict=True)
        for ours, theirs in zip(node.attribute, counterpart.attribute, strict=True)
        if ours.type == onnx.AttributeProto.GRAPH
    ]
    yield scope
    for inner, counterpart in pairs:
        yield from _nested(inner, counterpart, opset, scope)


def _check(node: onnx.NodeProto, info: OpInfo) -> None:
    """Refuses a node that does not fit its op; shape inference would not name the node."""
    title = label(node, info)
    node_attributes(info, node, title)
    for what, names, declared in (
        ("inputs", node.input, info.inputs),
        ("outputs", node.output, info.outputs),
    ):
        if len(names) > len(declared):
            raise ValueError(f"{title}: got {len(names)} {what}, expected {len(declared)} at most")
    if not any(node.output):
        raise ValueError(f"{title}: got no outputs, expected {len(info.outputs)}")
    for number, item in enumerate(info.inputs):
        if not item.optional and not "".join(node.input[number : number + 1]):
            raise ValueError(f"{title}: {item.name}: got no input, expected one")


def label(node: onnx.NodeProto, info: OpInfo) -> str:
    """The text for a node of an op library in errors: its name, or its first output."""
    name = node.name or next(filter(None, node.output), "")
    return f"node {name!r} ({info.node})" if name else f"node without a name ({info.node})"


def small(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model for shape inference: without weights, and without bodies, because our nodes have
    schemas."""
    return without_weights(model, [f for f in model.functions if not is_body(f)])


def all_nodes(nodes: Any) -> Iterator[onnx.NodeProto]:
    """The nodes of a list and of every graph inside them."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from all_nodes(attribute.g.node)


def drop_unused(model: onnx.ModelProto, suspects: set[str]) -> None:
    """Removes the constants and nodes among `suspects` that nothing reads any longer, and those
    that only these read."""
    graph = model.graph
    while suspects:
        inner = [a.g for n in all_nodes(graph.node) for a in n.attribute if a.HasField("g")]
        used = {name for node in all_nodes(graph.node) for name in node.input}
        used.update(item.name for g in (graph, *inner) for item in g.output)
        freed: set[str] = set()
        for g in (graph, *inner):
            for tensor in [t for t in g.initializer if t.name in suspects - used]:
                g.initializer.remove(tensor)
            for node in [n for n in g.node if suspects.intersection(n.output)]:
                if not used.intersection(node.output):
                    freed.update(node.input)
                    g.node.remove(node)
        suspects = freed


def inline_callers(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy without our function bodies, in which every function that calls our nodes is inlined.

    Types and shapes are known in the graph, but not inside a function.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.functions[:]
    copy.functions.extend(f for f in model.functions if not is_body(f))
    callers: set[tuple[str, str]] = set()
    while True:
        found = {
            (f.domain, f.name)
            for f in copy.functions
            if any(is_ours(n) or (n.domain, n.op_type) in callers for n in all_nodes(f.node))
        }
        if found == callers:
            break
        callers = found
    if not callers:
        return copy
    return onnx.inliner.inline_selected_functions(copy, sorted(callers))


def is_body(function: onnx.FunctionProto) -> bool:
    """Whether a function is the body of one of our nodes."""
    return _libraries.find_node(function.domain, function.name) is not None


class Names:
    """Makes names for values that the model does not use yet."""

    def __init__(self, model: onnx.ModelProto) -> None:
        graphs = [model.graph]
        self._used: set[str] = set()
        while graphs:
            graph = graphs.pop()
            for item in [*graph.input, *graph.output, *graph.value_info, *graph.initializer]:
                self._used.add(item.name)
            for node in graph.node:
                self._used.update(node.input, node.output)
                graphs.extend(a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH)

    def fresh(self, hint: str) -> str:
        name, number = hint, 1
        while name in self._used:
            name, number = f"{hint}_{number}", number + 1
        self._used.add(name)
        return name
