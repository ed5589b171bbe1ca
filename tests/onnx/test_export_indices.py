"""Indices that the torchscript exporter writes wrongly: negative ones, and several equal ones. The
values of the example show neither, so the checks of an export cannot find them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
import torch
import warm

import myops.onnx
import myops.ort
from myops.onnx.symbolics import register

X = torch.arange(60.0).reshape(3, 5, 4)
POSITIONS = torch.tensor([1, 3, 2])
ONES = torch.ones(3, 4)
Function = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Indexed(torch.nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return self.function(x, i)


def exported(function: Function, **settings: Any) -> onnx.ModelProto:
    settings.setdefault("exporter", "torchscript")
    return myops.onnx.export(Indexed(function), (X, POSITIONS), input_names=["x", "i"], **settings)


def check(model: onnx.ModelProto, function: Function, *indices: list[int]) -> None:
    session = myops.ort.session(model)
    for given in indices:
        i = torch.tensor(given)
        (got,) = session.run(None, {"x": X.numpy(), "i": i.numpy()})
        np.testing.assert_array_equal(got, function(X, i).numpy(), err_msg=str(given))


@pytest.mark.parametrize("opset", [9, 13, 20])
@pytest.mark.parametrize(
    "function",
    [
        lambda x, i: x[torch.arange(x.shape[0]), i - 1],
        lambda x, i: x[:, i - 1, i - 1],
        lambda x, i: x[i - 1, :, (i - 1)[:, None]],
        lambda x, i: x[i.int() - 1, i - 1],
        lambda x, i: x[torch.tensor([-1, -2]), torch.tensor([0, -1])] + i.sum(),
    ],
    ids=["last", "middle", "apart", "int32", "constant"],
)
def test_negative_indices_count_from_the_end(function: Function, opset: int) -> None:
    check(exported(function, opset_version=opset), function, [1, 3, 2], [0, 1, 0], [-1, 0, 2])


def test_indices_that_cannot_be_negative_cost_no_node() -> None:
    model = exported(lambda x, i: x[torch.arange(x.shape[0]), x.argmax(1)[:, 0]] + i.sum())
    assert "Less" not in {node.op_type for node in model.graph.node}


def accumulated(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return x[:, 0].index_put((i - 1,), ONES, accumulate=True)


def accumulated_at_pairs(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return x.index_put((i - 1, i), ONES, accumulate=True)


def scattered(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return x[:, 0].scatter_add(0, (i - 1)[:, None].expand(3, 4), ONES)


def added(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return x[:, 0].index_add(0, i - 1, ONES)


def added_behind(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return x[0].index_add(-1, i, torch.ones(5, 3), alpha=0.5)


SUMS = [accumulated, accumulated_at_pairs, added, added_behind, scattered]


@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
@pytest.mark.parametrize("function", SUMS)
def test_numbers_at_equal_indices_are_added(function: Function, exporter: str) -> None:
    check(exported(function, exporter=exporter), function, [1, 3, 2], [2, 2, 2], [3, 1, 3])


@pytest.mark.parametrize("function", SUMS)
def test_sums_at_equal_indices_are_refused_before_opset_16(function: Function) -> None:
    text = "before opset 16 ONNX cannot add numbers at equal indices; write opset_version=16 or"
    with pytest.raises((ValueError, RuntimeError), match=text):
        exported(function, opset_version=15)


def test_a_registered_operator_is_written_as_registered() -> None:
    def write(g: Any, x: Any, indices: Any, values: Any, accumulate: Any) -> Any:
        return g.op("Identity", x)

    myops.onnx.register_symbolic("aten::index_put", write)
    try:
        model = exported(accumulated, skip_checks="all")
    finally:
        register.unregister("aten::index_put")
    assert "ScatterND" not in {node.op_type for node in model.graph.node}


def test_the_exporters_own_function_is_that_of_the_opset() -> None:
    """In a process that has not exported yet, torch has not loaded those of later opsets."""
    script = """
import torch, myops.onnx
myops.onnx.register_symbolic("aten::index_put", lambda g, x, *rest: x, opset_range=(7, 8))

class Model(torch.nn.Module):
    def forward(self, x, i):
        y = x.clone()
        y[torch.arange(3), i] = 5.0
        return y

inputs = torch.randn(3, 5), torch.tensor([1, 0, 3])
myops.onnx.export(Model(), inputs, exporter="torchscript", opset_version=11)
"""
    done = warm.run("-c", script)
    assert done.returncode == 0, done.stderr
