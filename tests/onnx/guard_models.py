"""Models and helpers for the tests of the checks of export."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
import pytest
import torch

from myops.onnx import ExportCheckError, export, guards
from myops.onnx.exporting.inputs import Inputs

A, B = torch.rand(3, 4), torch.rand(3, 4)


class Model(torch.nn.Module):
    """A module around a function; its parameters are those of the function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.forward = function  # type: ignore[method-assign]


def assert_fails(check: str, text: str, model: torch.nn.Module, *args: Any, **options: Any) -> None:
    with pytest.raises(ExportCheckError, match=text) as caught:
        export(model, args, **options)
    assert caught.value.check == check
    assert f'skip_checks=["{check}"]' in str(caught.value)


class AddFunction(torch.autograd.Function):
    """A custom operator as it was written before torch.library."""

    @staticmethod
    def symbolic(g: Any, a: Any, b: Any) -> Any:
        return g.op("acme::MyAdd", a, b)

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a + a + b


def exported_negation(opset: int, requested: int) -> guards.Exported:
    """An export of y = -x with `opset`, although `requested` was asked for."""
    graph = onnx.parser.parse_graph("g (float[2] x) => (float[2] y) { y = Neg(x) }")
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    module = Model(lambda x: -x)
    return guards.Exported(
        module, Inputs(module, (torch.rand(2),), {}, None), model, model, "dynamo", requested
    )
