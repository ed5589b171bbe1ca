"""Value numbering, as in compilers, of one list of nodes; two files share the numbers.

Values get equal numbers if the same operators with the same attributes compute them from equal
inputs. Names do not matter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, numpy_helper

from myops.onnx.graph.randomness import is_random
from myops.onnx.graph.structure import is_custom

Key = tuple[Hashable, ...]

_COMMUTING = {"Add", "Mul", "And", "Or", "Xor", "Equal", "BitwiseAnd", "BitwiseOr", "BitwiseXor"}
_CONSTANTS = {"value_float": np.float32, "value_floats": np.float32,
              "value_int": np.int64, "value_ints": np.int64}  # fmt: skip


class Numbering:
    """Assigns one number to each computation."""

    def __init__(self) -> None:
        self._known: dict[Key, int] = {}

    def of(self, *key: Hashable) -> int:
        return self._known.setdefault(key, len(self._known))


class NumberedGraph:
    """The graph of a model, a body inside it or a function.

    Attributes:
        graph: The GraphProto.
        nodes: Its nodes.
        inputs, outputs: Names; inputs that have an initializer are constants instead.
        makers: The index of the node that makes a value.
        readers: The indices of the nodes that read a value, including constants.
        constants: Values stored in the file: initializers, and Constant nodes.
        sparse: Sparse initializers.
        fixed: All values that are computed from these only.
        numbers: The number of each value.
        keys: The key of each node in the numbering, by index.
    """

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self.nodes: list[onnx.NodeProto] = list(graph.node)
        self.constants = constants(graph)
        self.sparse = {item.values.name: item for item in graph.sparse_initializer}
        self.inputs = [item.name for item in graph.input if item.name not in self.constants]
        self.outputs = [item.name for item in graph.output]
        self.makers: dict[str, int] = {}
        self.readers: dict[str, list[int]] = {}
        for place, node in enumerate(self.nodes):
            for name in node.output:
                self.makers.setdefault(name, place)
            for name in dict.fromkeys(node.input):
                self.readers.setdefault(name, []).append(place)
        self.fixed = {*self.constants, *self.sparse}
        for node in self.nodes:
            if node.input and self.fixed.issuperset(filter(None, node.input)) and not _varies(node):
                self.fixed.update(filter(None, node.output))
        self.makers.pop("", None)
        self.readers.pop("", None)
        self.numbers: dict[str, int] = {}
        self.keys: dict[int, int] = {}

    def number(
        self, numbering: Numbering, inputs: Mapping[str, int], outer: Callable[[str], int | None]
    ) -> None:
        """Fills `numbers` and `keys`.

        Args:
            inputs: The numbers of the inputs.
            outer: The number of a value of the graphs around this one; None for an unknown name.
        """
        numbers = self.numbers = dict(inputs)
        for name, tensor in self.constants.items():
            numbers[name] = numbering.of("constant", *digest(tensor))
        for name, sparse in self.sparse.items():
            numbers[name] = numbering.of("sparse", digest(sparse.values), digest(sparse.indices))

        def known(name: str) -> int:
            if name in numbers:
                return numbers[name]
            found = outer(name) if name not in self.makers else None
            return numbering.of("undefined", name) if found is None else found

        for place, node in enumerate(self.nodes):
            read = [known(name) if name else -1 for name in node.input]
            while read and read[-1] == -1:
                read.pop()
            read = sorted(read) if commutes(node) else read
            head = numbering.of("head", *kind(node), *_plain(node), *read)
            bodies = [(item.name, *_body(item.g, numbering, head, known))
                      for item in node.attribute if item.type == AttributeProto.GRAPH]  # fmt: skip
            key = self.keys[place] = numbering.of("node", head, *sorted(bodies))
            for number, name in enumerate(node.output):
                if name in self.constants or not name:
                    continue
                same = node.op_type == "Identity" and not is_custom(node.domain) and read
                numbers[name] = read[0] if same else numbering.of("value", key, number)


def commutes(node: onnx.NodeProto) -> bool:
    """Whether the two inputs of a node may be exchanged with bit-identical results."""
    return len(node.input) == 2 and node.op_type in _COMMUTING and not is_custom(node.domain)


def _varies(node: onnx.NodeProto) -> bool:
    """Whether a node may have other results each time, or reads more than its inputs."""
    return is_random(node) or any(item.type == AttributeProto.GRAPH for item in node.attribute)


def kind(node: onnx.NodeProto) -> Key:
    """Domain, type and overload of a node; the standard domain has one name."""
    return node.domain if is_custom(node.domain) else "", node.op_type, node.overload


def constants(graph: Any) -> dict[str, onnx.TensorProto]:
    """The values stored in a graph: dense initializers, and the tensors of Constant nodes."""
    found = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and not is_custom(node.domain) and node.output:
            tensor = _held(node)
            if tensor is not None:
                found.setdefault(node.output[0], tensor)
    found.pop("", None)
    return found


def _held(node: onnx.NodeProto) -> onnx.TensorProto | None:
    """The tensor of a Constant node; None if it is no plain tensor: sparse, or a reference to an
    attribute of a function."""
    for item in node.attribute:
        if item.ref_attr_name:
            return None
        if item.name == "value" and item.HasField("t"):
            return item.t
        if item.name in _CONSTANTS:
            value = onnx.helper.get_attribute_value(item)
            return numpy_helper.from_array(np.array(value, _CONSTANTS[item.name]))
        if item.name in ("value_string", "value_strings"):
            texts = [item.s] if item.name == "value_string" else list(item.strings)
            dims = [] if item.name == "value_string" else [len(texts)]
            return onnx.helper.make_tensor("", onnx.TensorProto.STRING, dims, texts)
    return None


def array_of(tensor: onnx.TensorProto) -> np.ndarray | None:
    """The array of a tensor; None if it is invalid or its data are in another file."""
    try:
        if tensor.data_type == onnx.TensorProto.STRING:  # they may be no UTF-8
            return np.array(list(tensor.string_data), object).reshape(tuple(tensor.dims))
        return np.asarray(numpy_helper.to_array(tensor))
    except Exception:  # what onnx raises for a broken tensor has no common base
        return None


def digest(tensor: onnx.TensorProto) -> Key:
    """A digest of type, shape and content, whichever field contains it."""
    array = array_of(tensor)
    if array is None:
        data = tensor.SerializeToString(deterministic=True)
    elif array.dtype == object:
        data = repr(array.tolist()).encode("utf-8", "backslashreplace")
    else:
        data = np.ascontiguousarray(array).tobytes()
    return tensor.data_type, tuple(tensor.dims), hashlib.sha1(data).hexdigest()


def attributes(node: onnx.NodeProto) -> dict[str, AttributeProto]:
    """The attributes of a node, including bodies, without those that have their default value."""
    found = {item.name: item for item in node.attribute}
    defaults = _defaults(kind(node)[0], node.op_type)
    return {name: item for name, item in found.items()
            if name not in defaults or _value(item) != defaults[name]}  # fmt: skip


def _plain(node: onnx.NodeProto) -> list[Hashable]:
    """The attributes of a node in a fixed order, without bodies."""
    return [(name, _value(item)) for name, item in sorted(attributes(node).items())
            if item.type != AttributeProto.GRAPH]  # fmt: skip


def _value(item: AttributeProto) -> Hashable:
    if item.type == AttributeProto.TENSOR and not item.ref_attr_name:
        return digest(item.t)
    copy = AttributeProto()
    copy.CopyFrom(item)
    copy.ClearField("doc_string")
    copy.ClearField("name")
    return copy.SerializeToString(deterministic=True)


_cache: dict[tuple[Any, str], dict[str, Hashable]] = {}


def _defaults(domain: Any, op_type: str) -> dict[str, Hashable]:
    """The defaults of the newest version of an operator. They differ between versions only if the
    meaning of the operator does, and then the opsets of two files differ too."""
    if (domain, op_type) not in _cache:
        found: dict[str, Hashable] = {}
        try:
            schema = onnx.defs.get_schema(op_type, domain=domain)
        except onnx.defs.SchemaError:
            return found  # not kept: a library may register it yet
        for name, item in schema.attributes.items():
            if item.default_value.type:
                found[name] = _value(item.default_value)
        _cache[domain, op_type] = found
    return _cache[domain, op_type]


def _body(
    graph: Any, numbering: Numbering, head: int, outer: Callable[[str], int]
) -> Sequence[Hashable]:
    """The numbers of a body's results, from its inputs and the outer values that it reads."""
    inner = NumberedGraph(graph)
    inputs = {name: numbering.of("parameter", head, place)
              for place, name in enumerate(inner.inputs)}  # fmt: skip
    inner.number(numbering, inputs, outer)
    return [inner.numbers.get(name, -1) if name in inner.numbers else outer(name)
            for name in inner.outputs]  # fmt: skip
