"""Transposed convolutions whose output has the lengths of an input, as in a U-Net."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import myops.onnx
import myops.ort


class Decoder(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = torch.nn.Conv2d(3, 6, 3, (2, 3), padding=1)
        self.up = torch.nn.ConvTranspose2d(6, 4, 3, (2, 3), padding=1, groups=2)
        self.wide = torch.nn.ConvTranspose2d(6, 2, (3, 4), (2, 3), 1, dilation=(1, 3), bias=False)
        self.row = torch.nn.ConvTranspose1d(6, 2, 3, 3, output_padding=1)

    def forward(self, x: torch.Tensor) -> Any:
        y = self.down(x)
        lengths = 2 * y.shape[2] - 1 + x.shape[2] % 2, 3 * y.shape[3] + 5 + x.shape[3] % 3
        return (
            self.up(y, output_size=x.shape[2:]), self.up(y[0], output_size=x.shape[2:]),
            self.wide(y, output_size=lengths), self.row(y[:, :, 0]),
        )  # fmt: skip


def test_output_sizes_follow_lengths() -> None:
    model, x = Decoder(), torch.randn(2, 3, 12, 14)
    exported = myops.onnx.export(
        model, (x,), exporter="dynamo", dynamic_axes={"x": {0: "n", 2: "h", 3: "w"}}
    )
    session = myops.ort.session(exported)
    for shape in ((2, 3, 12, 14), (1, 3, 13, 15), (3, 3, 8, 16), (1, 3, 25, 9)):
        x = torch.randn(shape)
        for got, wanted in zip(session.run(None, {"x": x.numpy()}), model(x), strict=True):
            np.testing.assert_allclose(got, wanted.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_constant_lengths_need_no_slice() -> None:
    model = torch.nn.ConvTranspose2d(3, 2, 3, 2, 1, output_padding=1)
    exported = myops.onnx.export(model, (torch.randn(2, 3, 4, 5),), exporter="dynamo")
    assert [node.op_type for node in exported.graph.node] == ["ConvTranspose"]


def test_groups_that_follow_a_length_are_refused_in_words() -> None:
    class Modulated(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            n = x.shape[0]
            weight = torch.ones(2 * n, 4, 3, 3) * x.mean()
            return torch.conv2d(x.reshape(1, 4 * n, 5, 5), weight, groups=n)

    with pytest.raises(RuntimeError, match="an argument that ONNX has as an attribute"):
        myops.onnx.export(
            Modulated(), (torch.randn(3, 4, 5, 5),), exporter="dynamo", dynamic_axes={"x": {0: "n"}}
        )
