"""Models whose names and texts are hostile: control sequences, forged lines, markup."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FORGED = "FORGED: all is well"
HOSTILE = f"n\x1b[31m\x1b]0;t\x07\n{FORGED}\r\u202e\u2028\x9b2J\x85[bold]:x:<script>$\\frac$&amp;"


def small(names: Callable[[str], str] = lambda name: name) -> onnx.ModelProto:
    """x * 2, in which every name is changed by `names`."""
    values = [helper.make_tensor_value_info(names(name), TensorProto.FLOAT, [1, 2])
              for name in "xy"]  # fmt: skip
    two = numpy_helper.from_array(np.float32([2.0]), names("two"))
    node = helper.make_node("Mul", [names("x"), names("two")], [names("y")], names("mul"))
    graph = helper.make_graph([node], names("graph"), values[:1], values[1:], [two])
    imports = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def hostile_models() -> dict[str, onnx.ModelProto]:
    """Models with hostile text wherever the format has a string: one that runs, and some that do
    not."""
    good = small(lambda name: name + HOSTILE)
    for field in ("producer_name", "producer_version", "doc_string", "domain"):
        setattr(good, field, HOSTILE)
    good.metadata_props.add(key=HOSTILE, value=HOSTILE)
    good.graph.node[0].doc_string = HOSTILE
    good.graph.input[0].type.tensor_type.shape.dim[0].dim_param = HOSTILE
    good.graph.output[0].type.tensor_type.shape.dim[0].dim_param = HOSTILE
    good.graph.node[0].metadata_props.add(key="pkg.torch.onnx.name_scopes", value=repr([HOSTILE]))
    found = {"runs": good}

    def another(name: str) -> onnx.ModelProto:
        found[name] = onnx.ModelProto.FromString(good.SerializeToString())
        return found[name]

    another("op").graph.node[0].op_type = HOSTILE
    model = another("domain")
    model.graph.node[0].domain = HOSTILE
    model.opset_import.add(domain=HOSTILE, version=3)
    another("not imported").graph.node[0].domain = HOSTILE
    another("myops").graph.node[0].domain = "myops"
    node = another("attribute").graph.node[0]
    node.attribute.append(helper.make_attribute(HOSTILE, HOSTILE.encode() + b"\xff"))
    another("undefined").graph.node[0].input[0] = f"gone{HOSTILE}"
    tensor = another("weights").graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=HOSTILE)
    tensor.external_data.add(key="length", value="8")
    model = another("function")
    model.functions.append(helper.make_function(
        HOSTILE, HOSTILE, [HOSTILE], [f"o{HOSTILE}"],
        [helper.make_node("Relu", [HOSTILE], [f"o{HOSTILE}"])], [helper.make_opsetid("", 17)],
    ))  # fmt: skip
    model.graph.node[0].domain = model.graph.node[0].op_type = HOSTILE
    del model.graph.node[0].input[1]
    model.opset_import.add(domain=HOSTILE, version=1)
    another("dtype").graph.input[0].type.tensor_type.elem_type = TensorProto.INT64
    another("shape").graph.initializer[0].dims[0] = 3
    another("lengths").graph.input[0].type.tensor_type.shape.dim[1].dim_value = -3
    return found


def check_signs(*streams: str, wrapped: bool = False) -> None:
    for text in streams:
        plain = re.sub(r"\x1b\[[0-9;]*m", "", text) if wrapped else text
        plain = re.sub(r"\x1b\[(\?25[lh]|[12]K|1A)|\r", "", plain) if wrapped else plain
        bad = {sign for sign in plain if sign != "\n" and not sign.isprintable()}
        assert not bad, (bad, text)
        assert wrapped or not any(line.startswith(FORGED) for line in plain.splitlines()), text
