"""Models for the tests of export, and how a file of them is run."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import torch
from node_models import run_plain

import myops
import myops.ort

EXPORTERS = ["dynamo", "torchscript"]


AXES = {"image": {0: "batch", 2: "height", 3: "width"}}


class Enlarge(torch.nn.Module):
    """A convolution, an image enlarged by a factor that is an input, and a thumbnail of it."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 2, 3, padding=1)
        self.dropout = torch.nn.Dropout(0.9)

    def forward(self, image: torch.Tensor, factor: torch.Tensor) -> tuple[torch.Tensor, ...]:
        features = self.dropout(self.convolution(image))
        large = myops.interpolate(features, scale_factor=factor, mode="bicubic")
        thumbnail = myops.interpolate(large, size=(7, 9), mode="nearest")
        return myops.my_add(large, large), thumbnail


class Twice(torch.nn.Module):
    """Ops that every opset can express."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return myops.my_add(myops.interpolate(x, scale_factor=2, mode="nearest"), torch.ones(1))


def assert_runs(model: onnx.ModelProto, module: torch.nn.Module, library: bool) -> None:
    """Asserts that the file equals torch at other lengths and factors than the example's."""
    for shape, factor in (((2, 3, 8, 9), 2.5), ((1, 3, 13, 6), 1.7), ((3, 3, 5, 5), 3.0)):
        image = torch.rand(shape)
        with torch.no_grad():
            wanted = module.eval()(image, torch.tensor(factor))
        feeds = {"image": image.numpy(), "factor": np.array(factor, np.float32)}
        run = (lambda m, f: myops.ort.session(m).run(None, f)) if library else run_plain
        for result, expected in zip(run(model, feeds), wanted, strict=True):
            assert result.shape == expected.shape
            np.testing.assert_allclose(result, expected.numpy(), atol=1e-5)


def dims(item: onnx.ValueInfoProto) -> list[Any]:
    return [dim.dim_value or dim.dim_param for dim in item.type.tensor_type.shape.dim]
