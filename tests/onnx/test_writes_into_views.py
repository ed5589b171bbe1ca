"""Writes into views before and after our ops: what the exporters lose, the error says."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import myops
from myops.onnx import ExportCheckError, export


def a_part(x: torch.Tensor) -> torch.Tensor:
    y = myops.my_add(x, x)
    y[:, 0].mul_(2.0)
    return y


def augmented(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    part = y[:, 0]
    part += 1
    return myops.my_add(y, y)


def reshaped(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y.view(1, -1).add_(1)
    return myops.my_add(y, y)


def filled(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[:, 0, ::2].fill_(3)
    return myops.my_add(y, y)


def of_an_input(x: torch.Tensor) -> torch.Tensor:
    x[:, 0].mul_(2)
    return myops.my_add(x, x)


def assigned(x: torch.Tensor) -> torch.Tensor:
    y = myops.my_add(x, x)
    y[:, 0] = 2 * y[:, 0]  # the advice
    return myops.my_add(y, x)


class Model(torch.nn.Module):
    def __init__(self, way: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.way = way

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.way(x)


WAYS = [a_part, augmented, reshaped, filled, of_an_input]


@pytest.mark.parametrize("way", WAYS)
def test_the_line_that_writes_is_named(way: Callable[[torch.Tensor], torch.Tensor]) -> None:
    with pytest.raises(ExportCheckError) as caught:
        export(Model(way), (torch.rand(1, 2, 8, 8),), exporter="torchscript")
    text = str(caught.value)
    assert "loses what forward writes into a view" in text
    assert "y[:, 0] = 2 * y[:, 0]" in text
    assert "register_symbolic" not in text
    first = way.__code__.co_firstlineno
    lines = [f"{__file__}:{first + number}:" for number in range(1, 4)]
    assert any(line in text for line in lines)


@pytest.mark.parametrize("way", WAYS)
def test_what_the_error_advises_works(way: Callable[[torch.Tensor], torch.Tensor]) -> None:
    export(Model(way), (torch.rand(1, 2, 8, 8),), exporter="dynamo")


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_an_assignment_to_a_part_works(exporter: str) -> None:
    export(Model(assigned), (torch.rand(1, 2, 8, 8),), exporter=exporter)
