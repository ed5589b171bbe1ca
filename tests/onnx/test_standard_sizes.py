"""myops.interpolate with target="onnx": each form of `size`, exported as standard operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from node_models import run_plain

import myops
from myops.onnx import export

SIZES: dict[str, Callable[[torch.Tensor], Any]] = {
    "a length": lambda x: 2 * x.shape[2] + 1,
    "a number": lambda x: 9,
    "lengths": lambda x: [2 * n for n in x.shape[2:]],
    "a tensor": lambda x: torch.full((1,), 2) * x.shape[2],
}


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
@pytest.mark.parametrize("size", list(SIZES))
@pytest.mark.parametrize(
    ("mode", "rank"),
    [("linear", 3), ("bilinear", 4), ("bicubic", 4), ("trilinear", 5), ("nearest", 3), ("area", 4)],
)
def test_every_form_of_size_in_standard_operators(
    mode: str, rank: int, size: str, exporter: str
) -> None:
    class Enlarge(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return myops.interpolate(x, size=SIZES[size](x), mode=mode)

    axes = {axis: f"n{axis}" for axis in range(2, rank)}
    example = torch.rand(1, 2, *[8, 7, 6][: rank - 2])
    model = export(
        Enlarge(), (example,), exporter=exporter, target="onnx", dynamic_axes={"x": axes}
    )
    assert {node.domain for node in model.graph.node} <= {"", "ai.onnx"}
    x = torch.rand(1, 2, *[11, 5, 9][: rank - 2])
    (got,) = run_plain(model, {"x": x.numpy()})
    np.testing.assert_allclose(got, Enlarge()(x).numpy(), atol=2e-5)
