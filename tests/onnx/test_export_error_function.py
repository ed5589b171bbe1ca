"""torch.special.erfcx and log_ndtr in exported files, at all numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import myops.onnx
import myops.ort

INF = float("inf")
X = [-1e4, -100, -37.6, -17, -9, -5.7, -1, -0.3, -1e-8, -0.0, 0, 1e-8, 0.2, 1, 3, 5.5, 9, 12, 14,
     100, 1e4, 3e38, INF, -INF, float("nan")]  # fmt: skip


class Model(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)  # type: ignore[no-any-return]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("exporter", "opset"), [("torchscript", 11), ("torchscript", 20), ("dynamo", 20)]
)
@pytest.mark.parametrize("name", ["erfcx", "log_ndtr"])
def test_all_numbers(name: str, exporter: str, opset: int, dtype: torch.dtype) -> None:
    function = getattr(torch.special, name)
    model = myops.onnx.export(
        Model(function), (torch.rand(len(X)).to(dtype),), exporter=exporter, opset_version=opset,
        input_names=["x"],
    )  # fmt: skip
    x = torch.tensor(X, dtype=dtype)
    (got,) = myops.ort.session(model).run(None, {"x": x.numpy()})
    wanted = function(x.double()).to(dtype).numpy()
    assert got.dtype == wanted.dtype
    bounds = (3e-6, 1e-38) if dtype == torch.float32 else (1e-12, 1e-300)
    np.testing.assert_allclose(got, wanted, *bounds)
