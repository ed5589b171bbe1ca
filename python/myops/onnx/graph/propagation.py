"""Shape inference that follows the values of shape computations, in bounded memory.

onnx follows every element of a value with one axis through the operators below, with 150 bytes for
each, whether or not it is used as a shape. A length may follow from such a computation itself
(ConstantOfShape of a product), so onnx is asked step by step: in each step, values whose length is
not known yet are not followed further, until all lengths are known that can be known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import onnx
import onnx.inliner

from myops.onnx.graph.structure import graphs_of, subgraphs

_LONGEST = 1 << 20  # elements of one value with one axis
_MOST = 1 << 23  # elements of all values that are followed: 1.2 GB
_STEPS = 12  # of lengths that follow from each other; files of exporters need one or two
_SEVERAL = -1  # stands for several axes, of which onnx follows nothing
_FOLLOWS = {"Add", "Cast", "Concat", "Gather", "Mul", "Slice", "Squeeze", "Sub", "Unsqueeze"}


def infer_shapes(model: onnx.ModelProto, **options: Any) -> onnx.ModelProto:
    """onnx.shape_inference.infer_shapes with data_prop=True, where no followed value is long.

    Args:
        model: The model, without large weights.
        **options: As of onnx's function.

    Returns:
        The model with inferred shapes; without those that only follow from the values of shape
        computations, if values are long, or their lengths follow from each other many times.

    Raises:
        onnx.shape_inference.InferenceError: As onnx's function.
    """
    inferred = onnx.shape_inference.infer_shapes(model, **options)
    try:
        bounded = _is_bounded(model, inferred)
    except Exception:  # of the inliner, or onnx's, which share no base class: then nothing is known
        bounded = False
    if not bounded:
        return inferred
    return onnx.shape_inference.infer_shapes(model, data_prop=True, **options)


def _is_bounded(model: onnx.ModelProto, inferred: onnx.ModelProto) -> bool:
    """Whether no value is long that onnx would follow.

    inferred: The model with the shapes that are known without following values.
    """
    own = [f for f in model.functions if not onnx.defs.has(f.name, f.domain)]
    if own:  # onnx looks into them, but does not tell the shapes inside
        model = _inlined(model, own)
        inferred = onnx.shape_inference.infer_shapes(model)
    known = 0
    for _ in range(_STEPS):
        lengths = _Lengths()
        lengths.read(model.graph, inferred.graph, {})
        if max(lengths.longest, lengths.followed_longest) > _LONGEST or lengths.followed > _MOST:
            return False
        if not lengths.unknown or lengths.known <= known:
            return True
        known = lengths.known
        inferred = onnx.shape_inference.infer_shapes(_cut(model, lengths.unknown), data_prop=True)
    return False


def _inlined(model: onnx.ModelProto, functions: list[onnx.FunctionProto]) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.functions[:]
    copy.functions.extend(functions)
    return onnx.inliner.inline_local_functions(copy)


@dataclass
class _Lengths:
    """What is known of the lengths of values with one axis.

    longest: The largest known one.
    followed, followed_longest: The sum, and an upper bound, of those that onnx follows.
    known: How many values with one axis, or of known rank, there are.
    unknown: Readers of values whose length is not known yet, although no operator of _FOLLOWS made
        them: by the graph's number and the node's place, the types by place of the input.
    """

    longest: int = 0
    followed: int = 0
    followed_longest: int = 0
    known: int = 0
    unknown: dict[tuple[int, int], dict[int, Any]] = field(default_factory=dict)
    _graphs: int = 0

    def read(self, graph: Any, inferred: Any, around: Mapping[str, Any]) -> None:
        """Adds a graph and those inside it.

        Args:
            graph: The graph, as it is.
            inferred: The same with inferred types.
            around: Types and bounds of the values of the graphs around it.
        """
        number, self._graphs = self._graphs, self._graphs + 1
        types = dict(around)
        for name, kind in _types(inferred):
            types[name] = kind, self._length(kind)
        for place, (node, other) in enumerate(zip(graph.node, inferred.node, strict=True)):
            follows = node.op_type in _FOLLOWS and node.domain in ("", "ai.onnx")
            made = None
            if follows:
                bounds = [types.get(name, (None, None))[1] for name in node.input]
                for slot, bound in enumerate(bounds):
                    if bound is None:
                        kind = types.get(node.input[slot], (None, None))[0]
                        self.unknown.setdefault((number, place), {})[slot] = kind
                followed = [bound for bound in bounds if bound is not None and bound != _SEVERAL]
                most = sum(followed) if node.op_type == "Concat" else max(followed, default=0)
                self.followed += sum(followed)
                self.followed_longest = max(self.followed_longest, most)
                # Squeeze and Gather may make one axis of several, which may be long.
                made = most if len(followed) == len(bounds) else None
            for name in node.output:
                kind, bound = types.get(name, (None, None))
                types[name] = kind, made if bound is None else bound
            for inner, counterpart in zip(subgraphs(node), subgraphs(other), strict=True):
                self.read(inner, counterpart, types)

    def _length(self, kind: Any) -> int | None:
        """The length of a value with one axis, 1 without axes, _SEVERAL with several; None where it
        is not known."""
        if not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
            return None
        dims = kind.tensor_type.shape.dim
        self.known += 1
        if len(dims) != 1:
            return _SEVERAL if dims else 1
        if not dims[0].HasField("dim_value"):
            return None
        self.known += 1
        self.longest = max(self.longest, dims[0].dim_value)
        return dims[0].dim_value


def _types(graph: Any) -> Iterator[tuple[str, Any]]:
    for item in [*graph.value_info, *graph.output, *graph.input]:
        yield item.name, item.type
    for tensor in graph.initializer:
        yield tensor.name, onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)


def _cut(
    model: onnx.ModelProto, readers: Mapping[tuple[int, int], Mapping[int, Any]]
) -> onnx.ModelProto:
    """A copy in which these readers read new inputs of the graph, of the same types."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for number, graph in enumerate(list(graphs_of(copy.graph))):
        for place, node in enumerate(graph.node):
            for slot, kind in readers.get((number, place), {}).items():
                name = f"{node.input[slot]}/not followed {number} {place} {slot}"
                node.input[slot] = name
                stated = copy.graph.input.add(name=name)
                if kind is not None:
                    stated.type.CopyFrom(kind)
    return copy
