"""How much memory a comparison takes, in sizes of the model's weights."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import warm
from onnx import helper, numpy_helper

LENGTH = 3000  # a weight is larger than 32 MiB: glibc returns such blocks when they are freed
MIB = 2 * LENGTH * LENGTH * 4 / 2**20

# The most of the process above what it had before, which includes PyTorch's model.
PROGRAM = """
import resource, sys
import torch
import myops.onnx

def compared(length, first, second):
    if sys.argv[1] == "files":
        return lambda: myops.onnx.compare_files(first, second)
    linear = torch.nn.Linear
    model = torch.nn.Sequential(linear(length, length, False), linear(length, length, False))
    with torch.no_grad():
        for layer in model:
            layer.weight.fill_(1 / length)
    return lambda: myops.onnx.compare(model, (torch.ones(1, length),), first)

compared(10, "small.onnx", "small.onnx")()  # imports what a comparison needs
run = compared(int(sys.argv[2]), "model.onnx", "model.onnx")
with open("/proc/self/statm") as file:
    before = int(file.read().split()[1]) * resource.getpagesize()
assert run().passed
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before)
"""


def two_products(length: int) -> onnx.ModelProto:
    weight = np.full((length, length), 1 / length, np.float32)
    shape = [1, length]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w1"], ["h"]),
         helper.make_node("MatMul", ["h", "w2"], ["y"])],
        "graph",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(weight, name) for name in ("w1", "w2")],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(("what", "most"), [("pytorch", 4.2), ("files", 5.2)])
def test_a_comparison_copies_the_weights_few_times(tmp_path: Path, what: str, most: float):
    """The file once, or two files; and of one session at a time the weights and ONNX Runtime's own
    form of them."""
    onnx.save(two_products(10), tmp_path / "small.onnx")
    onnx.save(two_products(LENGTH), tmp_path / "model.onnx")
    done = warm.run("-c", PROGRAM, what, LENGTH, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) / 2**20 / MIB < most
