"""What test_many_ops.py runs where the two packages are installed."""

import json
import sys
import time

import numpy as np
import onnx
import torch

import myops
import myops.onnx
import myops.ort

myops.my_add(torch.ones(1), torch.ones(1))  # what any op needs is loaded


def seconds(function):
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def imported(name):
    globals()[name] = __import__(name)


load = {name: seconds(lambda name=name: imported(name)) for name in ("one_op", "many_ops")}
assert len(many_ops.ops) == 200  # noqa: F821
x = torch.randn(1000)

for number in (1000, 1007, 1099, 1100, 1199):
    op = many_ops.ops[f"add_{number}"]  # noqa: F821
    assert torch.equal(op(x), x + number)
    assert torch.equal(getattr(torch.ops.many_ops, f"add_{number}")(x), x + number)
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(f"Add{number}", ["x"], ["y"], domain="many_ops")], "g",
        [onnx.helper.make_tensor_value_info("x", 1, [1000])],
        [onnx.helper.make_tensor_value_info("y", 1, [1000])],
    )  # fmt: skip
    imports = [onnx.helper.make_opsetid("", 20), onnx.helper.make_opsetid("many_ops", 1)]
    model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=9)
    begin = time.perf_counter()
    session = myops.ort.session(model)
    load["session"] = time.perf_counter() - begin
    assert np.array_equal(session.run(None, {"x": x.numpy()})[0], (x + number).numpy())


def calls(op, count=200):
    begin = time.perf_counter()
    for _ in range(count):
        op(x)
    return (time.perf_counter() - begin) / count


rows = {
    "one_op": one_op.add_7,  # noqa: F821
    "first": many_ops.ops["add_1000"],  # noqa: F821
    "last": many_ops.ops["add_1199"],  # noqa: F821
    "one_op, torch.ops": torch.ops.one_op.add_7.default,
    "last, torch.ops": torch.ops.many_ops.add_1199.default,
}
times = {name: [] for name in rows}
for _ in range(150):  # in turns, and each shorter than the slices in which programs share a core
    for name, op in rows.items():
        times[name].append(calls(op))
best = {name: min(found) for name, found in times.items()}
json.dump({"load": load, "call": best}, sys.stdout)
