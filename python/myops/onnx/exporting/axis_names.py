"""The names of dynamic axes in a file of the exporter "dynamo".

torch renames its own symbols (s77) only where every argument of forward is an input of the graph,
and takes a tuple of None in `dynamic_shapes` for the lengths of one tensor. So it gets no names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import onnx

from myops.onnx.exporting.dynamic_axes import multiple_of
from myops.onnx.graph.structure import graphs_of

_SYMBOL = re.compile(r"\b[su]\d+\b")
_TIMES = re.compile(r"(?:(\d+)\*)?([su]\d+)")  # "32*s5"


def name_axes(model: onnx.ModelProto, axes: Mapping[str, Mapping[int, str]]) -> None:
    """Puts the caller's names in place of torch's symbols."""
    names: dict[str, str] = {}
    for item in model.graph.input:
        dims = item.type.tensor_type.shape.dim
        for axis, title in axes.get(item.name, {}).items():
            found = _TIMES.fullmatch(dims[axis].dim_param) if axis < len(dims) else None
            if found is None:
                continue
            multiple, name = multiple_of(title)
            if multiple != int(found.group(1) or 1):
                multiple, name = 1, title
            if found.group(1) is None or multiple > 1:
                names.setdefault(found.group(2), name)
    for graph in graphs_of(model.graph):
        for value in (*graph.input, *graph.output, *graph.value_info):
            for dim in value.type.tensor_type.shape.dim:
                if dim.dim_param:
                    dim.dim_param = _SYMBOL.sub(
                        lambda part: names.get(part.group(), part.group()), dim.dim_param
                    )
