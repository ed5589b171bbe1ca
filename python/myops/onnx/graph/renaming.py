"""Other names for the values of a graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from myops.onnx.graph import structure


def rename_values(graph: Any, names: Mapping[str, str]) -> None:
    """Renames values of a graph where they are defined and read; in inner graphs, where they are
    read."""
    for item in [*graph.input, *graph.output, *graph.value_info, *graph.initializer]:
        item.name = names.get(item.name, item.name)
    for sparse in graph.sparse_initializer:
        sparse.values.name = names.get(sparse.values.name, sparse.values.name)
    for note in graph.quantization_annotation:
        note.tensor_name = names.get(note.tensor_name, note.tensor_name)
        for entry in note.quant_parameter_tensor_names:
            entry.value = names.get(entry.value, entry.value)
    for node in graph.node:
        for inner in structure.subgraphs(node):
            own = structure.defined(inner)
            rename_values(inner, {old: new for old, new in names.items() if old not in own})
        for listed in (node.input, node.output):
            for place, name in enumerate(listed):
                if name in names:
                    listed[place] = names[name]
