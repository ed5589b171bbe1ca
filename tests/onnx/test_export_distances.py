"""Distances between rows, and scatter_reduce, in exported files at other lengths."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch

import myops.onnx
import myops.ort


class Distances(torch.nn.Module):
    def __init__(self, p: float, dtype: torch.dtype) -> None:
        super().__init__()
        self.p, self.dtype = p, dtype

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cdist(x.to(self.dtype), y.to(self.dtype), p=self.p)


class Scattered(torch.nn.Module):
    """Into rows of which the last two get nothing."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype
        kinds = ["sum", "prod", "amax", "amin", "mean"]
        kinds = kinds if dtype.is_floating_point else kinds[:4]
        self.pairs = list(itertools.product(kinds, (True, False)))

    def forward(self, x: torch.Tensor, i: torch.Tensor) -> Any:
        into = torch.full((5, 4), 2, dtype=self.dtype)
        return tuple(
            into.scatter_reduce(0, i[:, :3], x.to(self.dtype), kind, include_self=included)
            for kind, included in self.pairs
        )


def check(model: Any, inputs: list[Any], axes: Any, exporter: str, opset: int) -> None:
    exported = myops.onnx.export(
        model, inputs[0], exporter=exporter, opset_version=opset, dynamic_axes=axes
    )
    session = myops.ort.session(exported)
    names = [item.name for item in session.get_inputs()]
    for given in inputs:
        wanted = model(*given)
        feeds = {name: item.numpy() for name, item in zip(names, given, strict=True)}
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        for got, expected in zip(session.run(None, feeds), wanted, strict=True):
            assert got.dtype == expected.numpy().dtype
            np.testing.assert_allclose(got, expected.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("exporter", "opset"), [("torchscript", 13), ("torchscript", 20), ("dynamo", 20)]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, math.inf])
def test_distances(p: float, dtype: Any, exporter: str, opset: int) -> None:
    generator = torch.Generator().manual_seed(0)
    inputs = [
        tuple(torch.randn(shape, generator=generator).round() for shape in ((2, n, 4), (m, 4)))
        for n, m in ((5, 7), (1, 6), (9, 3))
    ]
    check(Distances(p, dtype), inputs, {"x": {1: "n"}, "y": {0: "m"}}, exporter, opset)


@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_scatter_reduce(dtype: Any, exporter: str) -> None:
    generator = torch.Generator().manual_seed(0)

    def drawn(n: int) -> tuple[torch.Tensor, torch.Tensor]:
        values = torch.randn(n, 4, generator=generator) * 3
        return values, torch.randint(0, 3, (n, 4), generator=generator)

    inputs = [drawn(n) for n in (6, 11, 1)]
    axes = {"x": {0: "n"}, "i": {0: "n"}}
    check(Scattered(dtype), inputs, axes, exporter, 20)
