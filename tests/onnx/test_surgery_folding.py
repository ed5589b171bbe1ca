"""simplify refuses to compute huge values of constants: a small file may ask for any memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from myops.onnx.surgery import _folding
from myops.onnx.surgery.slimming import SimplifyError, simplify

node = helper.make_node


def model(nodes: list[onnx.NodeProto], **constants: Any) -> onnx.ModelProto:
    """y = x + the sum of "c", which the nodes make."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("x", "y")]
    listed = [numpy_helper.from_array(np.asarray(item), name) for name, item in constants.items()]
    nodes = [*nodes, node("ReduceSum", ["c"], ["r"], keepdims=0), node("Add", ["x", "r"], ["y"])]
    graph = helper.make_graph(nodes, "test", ends[:1], ends[1:], listed)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


HUGE = 2**33
ONE = np.ones(1, np.float32)
MODELS = {
    "ConstantOfShape": model([node("ConstantOfShape", ["s"], ["c"])], s=[HUGE]),
    "of a Constant": model([
        node("Constant", [], ["s"], value=numpy_helper.from_array(np.array([2**17, 2**16]))),
        node("ConstantOfShape", ["s"], ["c"])]),
    "of a Concat": model([node("Concat", ["s", "u"], ["t"], axis=0),
                          node("ConstantOfShape", ["t"], ["c"])], s=[2**16], u=[2**17]),
    "Expand": model([node("Expand", ["one", "s"], ["c"])], one=ONE, s=[HUGE]),
    "Tile": model([node("Tile", ["one", "s"], ["c"])], one=ONE, s=[HUGE]),
    "Range": model([node("Range", ["a", "b", "d"], ["c"])],
                   a=np.float32(0), b=np.float32(HUGE), d=np.float32(1)),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_huge_values_of_constants_are_refused(name: str) -> None:
    text = rf"got {HUGE} elements for 'c', which .* expected at most {2**28};"
    with pytest.raises(SimplifyError, match=text):
        simplify(MODELS[name], check=False)


def test_what_is_not_computed_is_no_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that depends on an input, or is no larger."""
    monkeypatch.setattr(_folding, "MOST_ELEMENTS", 100)
    nodes = [node("Expand", ["x", "s"], ["c"])]
    assert simplify(model(nodes, s=[1000])).after["Expand"] == 1
    with pytest.raises(SimplifyError, match=r"got 1000 elements for 'c'.* expected at most 100"):
        simplify(model([node("ConstantOfShape", ["s"], ["c"])], s=[1000]))
    nodes = [node("ConstantOfShape", ["s"], ["c"])]
    assert "ConstantOfShape" not in simplify(model(nodes, s=[100])).after
