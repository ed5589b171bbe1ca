"""torch.atan2 in exported files: all quadrants, both axes, the origin, and signs of zeros."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import myops.onnx
import myops.ort

NUMBERS = [-2.0, -1e-30, -0.0, 0.0, 0.5, 3.0, float("inf"), float("-inf")]
PAIRS = list(itertools.product(NUMBERS, NUMBERS))
Y, X = (torch.tensor(column) for column in zip(*PAIRS, strict=True))


class Angle(torch.nn.Module):
    def forward(self, y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.atan2(y, x)


@pytest.mark.parametrize(
    "dtypes", [(torch.float32,) * 2, (torch.int64,) * 2, (torch.float32, torch.int64)]
)
@pytest.mark.parametrize(
    ("exporter", "opset"), [("torchscript", 11), ("torchscript", 20), ("dynamo", 20)]
)
def test_angles_are_those_of_torch(
    exporter: str, opset: int, dtypes: tuple[torch.dtype, torch.dtype]
) -> None:
    example = tuple(torch.tensor([3.0, -2.0, 1.0]).to(dtype) for dtype in dtypes)
    model = myops.onnx.export(
        Angle(), example, exporter=exporter, opset_version=opset, input_names=["y", "x"],
        dynamic_axes={"y": {0: "n"}, "x": {0: "n"}},
    )  # fmt: skip
    finite = torch.isfinite(Y) & torch.isfinite(X)
    whole = torch.int64 in dtypes
    y, x = (
        (item[finite] if whole else item).to(dtype)
        for item, dtype in zip((Y, X), dtypes, strict=True)
    )
    (got,) = myops.ort.session(model).run(None, {"y": y.numpy(), "x": x.numpy()})
    expected = torch.atan2(y, x).numpy()
    assert got.dtype == expected.dtype
    np.testing.assert_allclose(got, expected, rtol=1e-6)


class Sign(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.signbit(x)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "int8", "uint8"])
@pytest.mark.parametrize(
    ("exporter", "opset"), [("torchscript", 11), ("torchscript", 20), ("dynamo", 20)]
)
def test_signbit(exporter: str, opset: int, dtype: str) -> None:
    kind = getattr(torch, dtype)
    x = torch.tensor(NUMBERS) if kind.is_floating_point else torch.tensor([-2, -1, 0, 1, 100])
    x = x.abs().to(kind) if dtype == "uint8" else x.to(kind)
    example = torch.ones(len(x), dtype=kind)
    model = myops.onnx.export(
        Sign(), (example,), exporter=exporter, opset_version=opset, input_names=["x"]
    )
    (got,) = myops.ort.session(model).run(None, {"x": x.numpy()})
    np.testing.assert_array_equal(got, torch.signbit(x).numpy())
