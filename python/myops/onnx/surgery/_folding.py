"""What folding would compute: a file of some hundred bytes may ask for any amount of memory."""

from __future__ import annotations

import math

import onnx

from myops.onnx.graph import inference, randomness, structure
from myops.onnx.surgery._errors import SimplifyError

MOST_ELEMENTS = 2**28  # of a value that constants alone determine


def refuse_large(model: onnx.ModelProto) -> None:
    """Refuses a model in which a node makes more elements of constants alone, such as a
    ConstantOfShape: onnxslim computes these values, also those that do not become constants.

    Raises:
        SimplifyError: There is such a node.
    """
    known: set[str] = set()
    functions, off = randomness.random_functions(model.functions), randomness.known_false(model)
    for graph in structure.graphs_of(inference.infer(model).graph):
        inputs = {item.name for item in graph.input}
        known |= {item.name for item in graph.initializer if item.name not in inputs}
        known |= {item.values.name for item in graph.sparse_initializer}
        shapes = {item.name: item.type.tensor_type.shape.dim
                  for item in (*graph.value_info, *graph.output)}  # fmt: skip
        for node in graph.node:
            if structure.is_custom(node.domain) or not known.issuperset(structure.reads(node)):
                continue
            if randomness.is_random(node, functions, off):
                continue
            known.update(name for name in node.output if name)
            for name in node.output:
                elements = math.prod(dim.dim_value for dim in shapes.get(name, ()))
                if elements > MOST_ELEMENTS:
                    raise SimplifyError(
                        f"simplify: got {elements} elements for {name!r}, which "
                        f"{structure.label(node)} makes of constants only and which would be "
                        f"computed now; expected at most {MOST_ELEMENTS}; nothing was written"
                    )
