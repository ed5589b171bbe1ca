"""Constants of float64 models, which torch's newer exporter would round to float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from guard_models import Model
from node_models import run_plain

from myops.onnx import ExportCheckWarning, export

X = torch.linspace(0.05, 0.95, 12, dtype=torch.float64).view(3, 4)
# Operations with a Python number; each has another form in the program of torch.export.
WAYS: list[Any] = [
    lambda x: x * 0.1,
    lambda x: 0.1 - x,
    lambda x: x / 0.3,
    lambda x: 0.1 / x,
    lambda x: x**2.3,
    lambda x: 1.7**x,
    lambda x: x.clamp(0.3, 0.7),
    lambda x: x.masked_fill(x > 0.5, 0.1),
    lambda x: torch.where(x > 0.3, x, 0.7),
    lambda x: torch.full_like(x, 0.1) + x,
    lambda x: torch.add(x, x, alpha=0.1),
    lambda x: F.threshold(x, 0.3, 0.1),
    lambda x: F.pad(x, (1, 1), value=0.1),
    lambda x: torch.remainder(x, 0.3),
    lambda x: torch.lerp(x, 2 * x, 0.3),
    lambda x: torch.rsub(x, 0.3, alpha=0.7),
    lambda x: F.softshrink(x, 0.3),
    lambda x: torch.softmax(x * 0.1, -1),
]


def all_ways(x: torch.Tensor) -> list[torch.Tensor]:
    return [way(x) for way in WAYS]


@pytest.mark.parametrize("optimize", [True, False])
def test_float64_constants_are_not_rounded(optimize: bool, no_warnings: None) -> None:
    # The check "numbers" warns if fewer digits agree, as in the test below.
    model = export(Model(all_ways), X, exporter="dynamo", optimize=optimize)
    for number, (way, got) in enumerate(zip(WAYS, run_plain(model, {"x": X.numpy()}), strict=True)):
        np.testing.assert_allclose(got, way(X).numpy(), rtol=1e-13, err_msg=str(number))


def test_float32_models_stay_float32() -> None:
    model = export(Model(lambda x: x * 0.1), X.float(), exporter="dynamo")
    (got,) = run_plain(model, {"x": X.float().numpy()})
    assert got.dtype == np.float32


def test_float32_attributes_are_a_warning() -> None:
    """No exporter can avoid this."""
    with pytest.warns(ExportCheckWarning, match="agrees with PyTorch to .e-0. only"):
        export(Model(lambda x: F.celu(x - 0.5, 1.3)), X, exporter="torchscript")
