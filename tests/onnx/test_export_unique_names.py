"""Values of one name, in models of exporter="dynamo": it calls results after their operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import torch

import myops.onnx
import myops.ort

X, Y = torch.randn(3, 4), torch.randn(3, 4)


class NamedAsResults(torch.nn.Module):
    """Its buffers have the names of results, one of which the optimizer computes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("index", torch.tensor([[0, 2], [1, 7]]))
        self.register_buffer("mul", torch.randn(4))
        self.table = torch.nn.Parameter(torch.randn(9, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = self.table[self.index.view(-1)], self.table[self.index.view(-1) + 1]
        return x * self.mul + (first * second).sum(0)


class InBranches(NamedAsResults):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x, m: x * m, lambda x, m: (x - m) * m, (x, self.mul))


class NamedAsInputs(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(4))

    def forward(self, weight: torch.Tensor, y: torch.Tensor) -> Any:
        return weight * self.weight, (y + weight) * y, y


def check(model: torch.nn.Module, *args: torch.Tensor, **settings: Any) -> onnx.ModelProto:
    exported = myops.onnx.export(model, args, exporter="dynamo", **settings)
    session = myops.ort.session(exported)
    for sign in (1, -1):
        given = [sign * item for item in args]
        names = [item.name for item in session.get_inputs()]
        feeds = dict(zip(names, [item.numpy() for item in given], strict=True))
        wanted = model(*given)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        for got, expected in zip(session.run(None, feeds), wanted, strict=True):
            np.testing.assert_allclose(got, expected.detach().numpy(), rtol=1e-5, atol=1e-6)
    return exported


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("kind", [NamedAsResults, InBranches])
def test_buffers_with_names_of_results(kind: Any, optimize: bool) -> None:
    exported = check(kind(), X, optimize=optimize)
    assert "mul" in {item.name for item in exported.graph.initializer}


@pytest.mark.parametrize("optimize", [True, False])
def test_a_weight_with_the_name_of_an_input(optimize: bool) -> None:
    exported = check(NamedAsInputs(), X, Y, optimize=optimize)
    assert [item.name for item in exported.graph.input] == ["weight", "y"]


def test_inputs_and_outputs_with_names_of_results() -> None:
    names = {"input_names": ["mul", "add"], "output_names": ["add_1", "mul_1", "mul_2"]}
    exported = check(NamedAsInputs(), X, Y, **names)
    assert [item.name for item in exported.graph.input] == names["input_names"]
    assert [item.name for item in exported.graph.output] == names["output_names"]
