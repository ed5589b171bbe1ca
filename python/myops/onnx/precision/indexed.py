"""ONNX Runtime's `ONNXModel` with an index of names.

Its quantizer asks this class for each value which nodes read and write it, and the class looks
through all nodes each time: the time grows with the square of their number.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Collection, Iterator, Sequence
from typing import Any
from unittest import mock

import onnx
from onnxruntime.quantization import quant_utils
from onnxruntime.quantization.onnx_model import ONNXModel
from onnxruntime.quantization.qdq_quantizer import QDQQuantizer

_Nodes = dict[str, list[onnx.NodeProto]]


class _Initializers:
    """What `initializer()` returns: the list, which knows its names."""

    def __init__(self, model: IndexedModel) -> None:
        self.find = model.get_initializer
        self._tensors = model.model.graph.initializer

    def __iter__(self) -> Iterator[onnx.TensorProto]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


@contextlib.contextmanager
def finding_by_index() -> Iterator[None]:
    """Inside, the quantizer's `find_by_name` uses the index of `_Initializers`."""

    def find(name: str, items: Any) -> Any:
        found = items.find if isinstance(items, _Initializers) else None
        return found(name) if found else quant_utils.find_by_name(name, items)

    with contextlib.ExitStack() as stack:
        for base in QDQQuantizer.__mro__:  # in which files they are depends on the version
            module = sys.modules[base.__module__]
            if hasattr(module, "find_by_name"):
                stack.enter_context(mock.patch.object(module, "find_by_name", find))
        yield


class IndexedModel(ONNXModel):
    """The same answers and changes, found by name.

    The index follows nodes and initializers that are appended, and is made anew after all other
    changes of these lists.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        super().__init__(model)
        self._forget()

    def _forget(self) -> None:
        self._readers: _Nodes = {}
        self._writers: _Nodes = {}
        self._nodes = 0
        self._tensors: dict[str, onnx.TensorProto] = {}
        self._indexed_tensors = 0

    def _index(self) -> tuple[_Nodes, _Nodes]:
        nodes = self.model.graph.node
        for place in range(self._nodes, len(nodes)):
            node = nodes[place]
            for index, names in ((self._readers, node.input), (self._writers, node.output)):
                for name in filter(None, names):  # "" is one that is left out
                    index.setdefault(name, []).append(node)
        self._nodes = len(nodes)
        return self._readers, self._writers

    def input_name_to_nodes(self) -> _Nodes:
        return self._index()[0]

    def replace_input_of_all_nodes(self, old_input_name: str, new_input_name: str) -> None:
        self._move(self._index()[0], old_input_name, new_input_name, None)

    def replace_input_of_nodes(
        self, old_input_name: str, new_input_name: str, node_names_set: Collection[str]
    ) -> None:
        self._move(self._index()[0], old_input_name, new_input_name, node_names_set)

    def replace_output_of_all_nodes(self, old_output_name: str, new_output_name: str) -> None:
        self._move(self._index()[1], old_output_name, new_output_name, None)

    def replace_output_of_nodes(
        self, old_output_name: str, new_output_name: str, node_names_set: Collection[str]
    ) -> None:
        self._move(self._index()[1], old_output_name, new_output_name, node_names_set)

    def _move(self, index: _Nodes, old: str, new: str, among: Collection[str] | None) -> None:
        replace = self._replace_input if index is self._readers else self._replace_output
        found = index.pop(old, [])
        left = [] if among is None else [node for node in found if node.name not in among]
        moved = found if among is None else [node for node in found if node.name in among]
        for node in moved:
            replace(node, old, new)
        if moved:
            index.setdefault(new, []).extend(moved)
        if left:
            index[old] = left

    # The base class has these as functions of a single node, which know no index.
    _replace_input = staticmethod(ONNXModel.replace_node_input)
    _replace_output = staticmethod(ONNXModel.replace_node_output)

    def replace_node_input(self, node: onnx.NodeProto, *names: str) -> None:
        self._replace_input(node, *names)
        self._forget()

    def replace_node_output(self, node: onnx.NodeProto, *names: str) -> None:
        self._replace_output(node, *names)
        self._forget()

    def initializer(self) -> _Initializers:
        return _Initializers(self)

    def get_initializer(self, name: str) -> onnx.TensorProto | None:
        tensors = self.model.graph.initializer
        for place in range(self._indexed_tensors, len(tensors)):
            self._tensors.setdefault(tensors[place].name, tensors[place])
        self._indexed_tensors = len(tensors)
        return self._tensors.get(name)

    def add_initializer(self, tensor: onnx.TensorProto) -> None:
        if self.get_initializer(tensor.name) is None:
            self.initializer_extend([tensor])

    def initializer_extend(self, inits: Sequence[onnx.TensorProto]) -> None:
        # The base class searches all initializers again for NaN in float8, which we never ask for.
        self.model.graph.initializer.extend(inits)

    def remove_node(self, node: onnx.NodeProto) -> None:
        super().remove_node(node)
        self._forget()

    def remove_initializer(self, tensor: onnx.TensorProto) -> None:
        self.get_initializer(tensor.name)  # so that all of them are in the index
        super().remove_initializer(tensor)
        if len(self.model.graph.initializer) < self._indexed_tensors:
            self._indexed_tensors -= 1
            del self._tensors[tensor.name]

    def clean_initializers(self) -> Any:
        found = super().clean_initializers()
        self._forget()
        return found

    def topological_sort(self) -> None:
        super().topological_sort()
        self._forget()
