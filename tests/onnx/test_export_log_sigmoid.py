"""torch.nn.functional.logsigmoid in exported files, at numbers far from 0."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import myops.onnx
import myops.ort

X = torch.tensor([-1e4, -100, -20, -17, -1, -0.0, 1e-30, 2, 10, 30, 1e4])


class LogSigmoid(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.logsigmoid(x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("exporter", "opset"), [("torchscript", 9), ("torchscript", 20), ("dynamo", 20)]
)
def test_numbers_far_below_zero_are_right(exporter: str, opset: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    example = torch.randn(1, 1, 11, generator=generator).to(dtype)
    model = myops.onnx.export(
        LogSigmoid(), (example,), exporter=exporter, opset_version=opset, input_names=["x"]
    )
    x = X.to(dtype).reshape(1, 1, 11)
    (got,) = myops.ort.session(model).run(None, {"x": x.numpy()})
    expected = torch.nn.functional.logsigmoid(x).numpy()
    assert got.dtype == expected.dtype
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-12)
