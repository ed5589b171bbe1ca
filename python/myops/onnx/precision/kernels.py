"""Whether ONNX Runtime's CPU provider has a kernel for a node in half precision.

A model with this node only is loaded to find out, because a list would be right for one release and
one kind of machine only. If there is no float16 kernel, ONNX Runtime writes casts around the node,
or decomposes it, without a message; the optimised model shows this. For bfloat16 it refuses the
model.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto

from myops._text import reason as short

HALVES = {"float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16}

_known: dict[bytes, str] = {}


def missing(
    node: onnx.NodeProto,
    inputs: Mapping[int, int],
    outputs: Mapping[int, int],
    imports: Sequence[Any],
    ir_version: int,
) -> str:
    """The reason why the node does not run unchanged on the CPU provider; "" if it does.

    Args:
        node: A node of ONNX or of ONNX Runtime's own domains, without bodies.
        inputs: The element type of each input by index.
        outputs: The same for outputs, as far as known.
        imports: The opset_import of the model.
        ir_version: The ir_version of the model.
    """
    alone = onnx.NodeProto(op_type=node.op_type, domain=node.domain, name="probe")
    alone.attribute.extend(node.attribute)
    alone.input.extend(f"i{place}" if name else "" for place, name in enumerate(node.input))
    alone.output.extend(f"o{place}" if name else "" for place, name in enumerate(node.output))
    stated = [onnx.helper.make_tensor_value_info(f"i{place}", kind, None)
              for place, kind in sorted(inputs.items())]  # fmt: skip
    made = []
    for place, name in enumerate(node.output):
        if name:
            made.append(onnx.ValueInfoProto(name=f"o{place}"))
            if place in outputs:
                made[-1].type.tensor_type.elem_type = outputs[place]
    graph = onnx.helper.make_graph([alone], "probe", stated, made)
    model = onnx.ModelProto(ir_version=ir_version, graph=graph)
    model.opset_import.extend(imports)
    key = model.SerializeToString()
    if key not in _known:
        _known[key] = _probe(model)
    return _known[key]


def _probe(model: onnx.ModelProto) -> str:
    import onnxruntime

    node = model.graph.node[0]
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = str(Path(folder) / "loaded.onnx")
        try:
            onnxruntime.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # ONNX Runtime's errors share no base class but this
            text = str(error)
            if "Could not find an implementation" in text or "NOT_IMPLEMENTED" in text:
                return "ONNX Runtime's CPU provider has no kernel"
            return f"ONNX Runtime does not load it alone: {short(error, 100)}"
        loaded = onnx.load(options.optimized_model_filepath)
    types = [item.op_type for item in loaded.graph.node]
    if types == [node.op_type]:
        return ""
    if node.op_type in types:
        return "ONNX Runtime's CPU provider has no kernel"
    return "ONNX Runtime's CPU provider has no kernel, and takes it apart"
