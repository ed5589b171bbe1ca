"""Calls that torch's older exporter refuses or writes wrongly, in files of both exporters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import myops.onnx
import myops.ort

EXPORTERS = [("torchscript", 14), ("torchscript", 20), ("dynamo", 20)]


class Applied(torch.nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


class Same(torch.nn.Module):
    """padding="same": with dilations, an even kernel, without a bias, without a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.apart = torch.nn.Conv2d(4, 6, (3, 5), padding="same", dilation=(6, 2), groups=2)
        self.even = torch.nn.Conv2d(4, 3, (2, 4), padding="same", dilation=(2, 3), bias=False)
        self.plain = torch.nn.Conv2d(4, 3, 3, padding="same")

    def forward(self, x: torch.Tensor) -> Any:
        return self.apart(x), self.even(x), self.plain(x), self.apart(x[0])


def heads(x: torch.Tensor) -> Any:
    k = x[:, :2, :, :]
    mask = torch.ones(x.shape[2], x.shape[2], dtype=torch.bool).tril()
    return (
        F.scaled_dot_product_attention(x, k, 2 * k, enable_gqa=True),
        F.scaled_dot_product_attention(x, k, k, is_causal=True, scale=0.3, enable_gqa=True),
        F.scaled_dot_product_attention(x, k, k, attn_mask=mask, enable_gqa=True),
    )


def sums(x: torch.Tensor) -> Any:
    whole = (3 * x).int()
    return (x > 0).cumsum(2), whole.cumsum(-1), whole.to(torch.int16).cumsum(0), x.cumsum(1)


def clamped(x: torch.Tensor) -> Any:
    whole = (3 * x).long()
    floats = whole.clamp(-1.5, 2.0), whole.int().clamp(min=0.5), whole.clamp_max(1.5)
    return *floats, whole.clamp(0, 2)


def others(x: torch.Tensor) -> Any:
    return x @ x.mT, torch.argwhere(x > 0), torch.vdot(x[0, 0, 0], x[0, 1, 0])


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize(("exporter", "opset"), EXPORTERS)
@pytest.mark.parametrize("model", [Same(), *map(Applied, (heads, sums, clamped, others))],
                         ids=["same", "heads", "sums", "clamped", "others"])  # fmt: skip
def test_results_at_other_lengths(model: torch.nn.Module, exporter: str, opset: int) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 4, 9, 6, generator=generator)
    exported = myops.onnx.export(
        model, (x,), exporter=exporter, opset_version=opset, dynamic_axes={"x": {0: "n", 2: "h"}}
    )
    session = myops.ort.session(exported)
    for shape in ((2, 4, 9, 6), (1, 4, 14, 6), (3, 4, 5, 6)):
        x = torch.randn(shape, generator=generator)
        for got, wanted in zip(session.run(None, {"x": x.numpy()}), model(x), strict=True):
            assert got.dtype == wanted.detach().numpy().dtype
            np.testing.assert_allclose(got, wanted.detach().numpy(), rtol=1e-4, atol=1e-5)
