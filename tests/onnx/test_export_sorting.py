"""Functions that order elements, and running products, in exported files at other lengths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import myops.onnx
import myops.ort

EXPORTERS = [("torchscript", 13), ("torchscript", 20), ("dynamo", 20)]
Function = Callable[[torch.Tensor], Any]


class Applied(torch.nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def check(function: Function, exporter: str, opset: int, dtype: Any = torch.float32) -> None:
    """Exports with dynamic lengths, runs at others, with many equal elements."""
    generator = torch.Generator().manual_seed(0)
    model = myops.onnx.export(
        Applied(function), (torch.randn(2, 5, 7, generator=generator).to(dtype),),
        exporter=exporter, opset_version=opset, dynamic_axes={"x": {1: "n", 2: "m"}},
    )  # fmt: skip
    session = myops.ort.session(model)
    for shape in ((2, 5, 7), (2, 4, 3), (2, 1, 18)):
        x = torch.randn(shape, generator=generator).mul(2).round().to(dtype)
        wanted = function(x)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        for got, expected in zip(session.run(None, {"x": x.numpy()}), wanted, strict=True):
            assert got.dtype == expected.numpy().dtype
            np.testing.assert_allclose(got, expected.numpy(), rtol=1e-5, err_msg=str(shape))


@pytest.mark.parametrize(("exporter", "opset"), EXPORTERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.uint8])
def test_stable_sorts(dtype: Any, exporter: str, opset: int) -> None:
    def sorts(x: torch.Tensor) -> Any:
        return (
            *x.sort(dim=1, stable=True),
            *torch.sort(x, dim=-1, stable=True, descending=True),
            x.argsort(dim=0, stable=True),
            (x > 0).sort(stable=True).indices,
        )

    check(sorts, exporter, opset, dtype)


@pytest.mark.parametrize(("exporter", "opset"), EXPORTERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_medians(dtype: Any, exporter: str, opset: int) -> None:
    def medians(x: torch.Tensor) -> Any:
        return (
            x.median(), x.median(1).values, x.median(-1, keepdim=True)[0],
            x.kthvalue(2, 0)[0], x.kthvalue(1, 1, keepdim=True).values,
        )  # fmt: skip

    check(medians, exporter, opset, dtype)


@pytest.mark.parametrize(("exporter", "opset"), EXPORTERS)
def test_searchsorted(exporter: str, opset: int) -> None:
    def places(x: torch.Tensor) -> Any:
        rows, bounds = x.sort(-1)[0], torch.tensor([-1.0, 0.0, 0.0, 1.0])
        return (
            torch.searchsorted(rows, x.flip(-1).contiguous()),
            torch.searchsorted(rows, x, right=True),
            torch.searchsorted(bounds, x, out_int32=True),
            torch.searchsorted(bounds, x, side="right"),
        )

    check(places, exporter, opset)


@pytest.mark.parametrize(("exporter", "opset"), EXPORTERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32])
def test_running_products(dtype: Any, exporter: str, opset: int) -> None:
    def products(x: torch.Tensor) -> Any:
        return x.cumprod(0), x.cumprod(1), x.cumprod(-1), x.cumprod(1, dtype=torch.float64)

    check(products, exporter, opset, dtype)


def test_volume_rendering() -> None:
    def weights(x: torch.Tensor) -> torch.Tensor:
        alpha = 1 - torch.exp(-x.abs())
        clear = torch.cat([torch.ones_like(alpha[..., :1]), 1 - alpha + 1e-10], -1)
        return alpha * clear.cumprod(-1)[..., :-1]

    for exporter in ("torchscript", "dynamo"):
        check(weights, exporter, 20)


def test_a_registered_overload_leaves_the_others_to_the_exporter() -> None:
    """torch's trace does not say which overload a sort is, except by its arguments."""
    check(lambda x: (x.sort(1)[0], x.sort(dim=1, stable=True)[0]), "torchscript", 20)
