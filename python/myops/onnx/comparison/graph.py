"""A graph for the parts of a comparison: its data flow, and submodels of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
import onnx

from myops.onnx import module_paths
from myops.onnx.graph import scopes, structure
from myops.onnx.schema import register_schemas


class Graph:
    """The graph of a model with its data flow.

    Attributes:
        model: The model itself, which is as large as its weights. It is not changed.
        types: The types of values, stated or inferred.
        nodes: The nodes of the main graph.
        producers: The index of the node that makes a value.
        constants: Values that are stored in the file, possibly in another shape or type. Values
            computed from constants are not among them, because they may be computed wrongly.
        outputs: Names of the outputs of the model.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = model
        graph = model.graph
        self._inner = [*graph.value_info, *_inferred(model)]
        self.types = {i.name: i.type for i in (*graph.input, *graph.output, *self._inner)}
        self.nodes = list(self.model.graph.node)
        self.producers = {
            name: place for place, node in enumerate(self.nodes) for name in node.output if name
        }
        self.constants = _written(self.model)
        self.outputs = [item.name for item in self.model.graph.output]
        self._weights = {tensor.name: tensor for tensor in self.model.graph.initializer}
        self.inputs = [i for i in self.model.graph.input if i.name not in self._weights]
        self._readers: dict[str, list[int]] = {}
        for place, node in enumerate(self.nodes):
            for name in structure.reads(node):
                self._readers.setdefault(name, []).append(place)

    def depth(self, name: str) -> int:
        """The index of the node that makes a value; -1 for an input of the model."""
        return self.producers.get(name, -1)

    def leaving(self, region: module_paths.Region) -> list[str]:
        """The outputs of a module that can be compared."""
        inside = set(region.nodes)
        made = [name for place in region.nodes for name in self.nodes[place].output]
        computed = [
            name
            for name in made
            if name not in region.outputs and not inside.issuperset(self._readers.get(name, ()))
        ]
        return [name for name in (*region.outputs, *computed) if name not in self.constants]

    def constant(self, name: str) -> np.ndarray | None:
        """The array of an initializer or Constant; None for other values."""
        if name in self._weights:
            tensor = self._weights[name]
            external = tensor.data_location == onnx.TensorProto.EXTERNAL
            return None if external else onnx.numpy_helper.to_array(tensor)
        node = self.nodes[self.producers[name]] if name in self.producers else onnx.NodeProto()
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            return onnx.numpy_helper.to_array(node.attribute[0].t)
        return self.constant(node.input[0]) if node.op_type == "Identity" else None

    def label(self, place: int) -> str:
        node = self.nodes[place]
        domain = f"{node.domain}::" if node.domain not in ("", "ai.onnx") else ""
        return f"{domain}{node.op_type} {node.name or node.output[0]!r}"

    def between(self, target: str, stops: Collection[str]) -> tuple[list[int], list[str]]:
        """The nodes that compute a value from others, and which of these it needs.

        Args:
            target: A value of the graph.
            stops: Where to stop; the target itself does not count.

        Returns:
            The indices of nodes in order, without Constants, and the values at which the search
            stopped: members of `stops` and inputs of the model.
        """
        places: set[int] = set()
        ends: dict[str, None] = {}
        waiting = [target]
        while waiting:
            name = waiting.pop()
            if name in self.constants:
                continue
            if (name in stops and name != target) or name not in self.producers:
                ends[name] = None
                continue
            place = self.producers[name]
            if place not in places:
                places.add(place)
                waiting.extend(structure.reads(self.nodes[place]))
        return sorted(places), list(ends)

    def submodel(
        self,
        places: Iterable[int],
        inputs: Sequence[str],
        outputs: Sequence[str],
        values: Mapping[str, np.ndarray],
    ) -> onnx.ModelProto:
        """Makes a model of some nodes, with the constants that they need.

        Args:
            values: Arrays of the inputs, for their types.
        """
        wanted = set(places)
        waiting = [n for place in wanted for n in structure.reads(self.nodes[place])]
        waiting += outputs
        used: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name in used or name in inputs:
                continue
            used.add(name)
            if name in self.constants and name in self.producers:
                place = self.producers[name]
                wanted.add(place)
                waiting.extend(structure.reads(self.nodes[place]))
        graph = self.model.graph
        cut = onnx.helper.make_graph(
            [self.nodes[place] for place in sorted(wanted)],
            "submodel",
            [_input(name, values[name], self.types) for name in inputs],
            [onnx.ValueInfoProto(name=name, type=self.types.get(name)) for name in outputs],
            [tensor for tensor in graph.initializer if tensor.name in used],
            value_info=[
                item
                for item in self._inner
                if item.name not in {*inputs, *outputs}
                and self.producers.get(item.name, -1) in wanted
            ],
        )
        cut.sparse_initializer.extend(
            tensor for tensor in graph.sparse_initializer if tensor.values.name in used
        )
        result = onnx.ModelProto(ir_version=self.model.ir_version, producer_name="myops compare")
        result.graph.CopyFrom(cut)
        result.opset_import.extend(self.model.opset_import)
        result.functions.extend(self.model.functions)
        return result


# These operators only rearrange stored numbers.
_REARRANGING = {
    "Cast", "Concat", "Constant", "ConstantOfShape", "Expand", "Flatten", "Gather", "Identity",
    "Range", "Reshape", "Shape", "Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
}  # fmt: skip


def _written(model: onnx.ModelProto) -> set[str]:
    known = module_paths.constants(model)
    found = known - {name for node in model.graph.node for name in node.output}
    for node in model.graph.node:
        if node.op_type in _REARRANGING and found.issuperset(structure.reads(node)):
            found.update(name for name in node.output if name)
    return found


def _input(
    name: str, array: np.ndarray, kinds: Mapping[str, onnx.TypeProto]
) -> onnx.ValueInfoProto:
    kind = kinds[name].tensor_type.elem_type if name in kinds else 0
    kind = kind or onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    return onnx.helper.make_tensor_value_info(name, kind, array.shape)


def _inferred(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """The types that the model does not state and that can be inferred."""
    register_schemas(model)
    try:
        inferred = onnx.shape_inference.infer_shapes(scopes.small(model))
    except (onnx.shape_inference.InferenceError, ValueError):
        return []
    known = {item.name for item in model.graph.value_info}
    return [item for item in inferred.graph.value_info if item.name not in known]
