"""Graphs in the attributes of nodes that a standard form writes."""

from __future__ import annotations

import numpy as np
import onnx.reference
from onnx import parser

from myops.onnx import builder as building
from myops.onnx import lowering
from myops.onnx.graph import inner_graphs

# x + w * y; the names x and y1 have other meanings outside, and w is from outside.
BODY = "body (float[] x, float[] y) => (float[] z) { y1 = Mul(y, w) z = Add(x, y1) }"


def test_own_names_of_an_inner_graph_are_made_unique() -> None:
    used = {"x", "y1"}

    def fresh(name: str) -> str:
        while name in used:
            name += "_"
        used.add(name)
        return name

    graph = parser.parse_graph(BODY)
    renamed = inner_graphs.with_own_names(graph, fresh)
    assert [item.name for item in renamed.input] == ["x_", "y"]
    assert [list(node.input) for node in renamed.node] == [["y", "w"], ["x_", "y1_"]]
    assert [item.name for item in renamed.output] == list(renamed.node[1].output) == ["z"]
    assert [item.name for item in graph.input] == ["x", "y"]  # a copy was renamed


def test_nodes_read_only_by_an_inner_graph_are_kept() -> None:
    """The weight w comes from a node that only the inner graph reads."""
    site = building.Site(None, "node", ["start", "rows"], [], [], [], {})  # type: ignore[arg-type]
    names = iter(range(100))
    builder = building.Builder(site, 18, lambda hint: f"{hint}_{next(names)}", "")
    unused = builder.op("Neg", "rows")
    weight = builder.op("Abs", "start")
    body = parser.parse_graph(BODY.replace("w)", "outer)"))
    body.node[0].input[1] = weight
    result = builder.op("Scan", "start", "rows", body=body, num_scan_inputs=1)
    nodes = lowering._used(builder.nodes, [result])
    assert [node.op_type for node in nodes] == ["Abs", "Scan"]
    assert all(unused not in node.output for node in nodes)

    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes, "g", [value("start", 1, [2]), value("rows", 1, [3, 2])], [value(result, 1, [2])]
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)])
    evaluator = onnx.reference.ReferenceEvaluator(model)
    start, rows = np.float32([-1, 2]), np.float32([[1, 2], [3, 4], [5, 6]])
    (found,) = evaluator.run(None, {"start": start, "rows": rows})
    np.testing.assert_array_equal(found, start + (rows * np.abs(start)).sum(0))
