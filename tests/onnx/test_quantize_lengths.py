"""quantize leaves what computes lengths, factors and positions in float: with the calibration's
range, a result would keep the size of the calibration's inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import myops
import myops.onnx
import myops.ort


class Layers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Conv2d(3, 4, 3, 1, 1), torch.nn.Conv2d(4, 3, 3, 1, 1)


class HalfByArea(Layers):
    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x).relu()
        return self.last(myops.interpolate(y, scale_factor=0.5, mode="area"))


class FromSize(Layers):
    def forward(self, x: Tensor, size: Tensor) -> Tensor:
        y = self.first(x).relu()
        return self.last(myops.interpolate(y, size=(size.float() * 0.5).long(), mode="bilinear"))


class FromFactor(Layers):
    def forward(self, x: Tensor, scale: Tensor) -> Tensor:
        y = self.first(x).relu()
        return self.last(myops.interpolate(y, scale_factor=scale * 0.5, mode="bilinear"))


class Warp(Layers):
    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x).relu()
        h, w = y.shape[2:]
        rows = torch.arange(h, dtype=torch.float32) * 2 / (h - 1) - 1
        columns = torch.arange(w, dtype=torch.float32) * 2 / (w - 1) - 1
        grid = torch.stack(torch.meshgrid(rows, columns, indexing="ij")[::-1], -1)
        moved = grid[None] + 0.01 * y[:, :2].permute(0, 2, 3, 1)
        return self.last(F.grid_sample(y, moved, align_corners=True))


CASES: list[tuple[type[Layers], list[Tensor], list[Tensor]]] = [
    (HalfByArea, [], []),
    (FromSize, [torch.tensor([40, 30])], [torch.tensor([90, 101])]),
    (FromFactor, [torch.tensor([2.0, 1.5])], [torch.tensor([3.0, 2.7])]),
    (Warp, [], []),
]


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
@pytest.mark.parametrize(("kind", "example", "other"), CASES, ids=[c[0].__name__ for c in CASES])
def test_other_sizes_than_the_calibration(
    kind: type[Layers], example: list[Tensor], other: list[Tensor], exporter: str, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    model = kind().eval()
    names = ["x", "more"][: 1 + len(example)]
    file = tmp_path / "model.onnx"
    myops.onnx.export(
        model, (torch.rand(1, 3, 16, 20), *example), file, input_names=names,
        dynamic_axes={"x": {2: "h", 3: "w"}}, exporter=exporter, opset_version=18,
    )  # fmt: skip

    def feed(height: int, width: int, more: list[Tensor]) -> dict[str, Any]:
        x = torch.rand(1, 3, height, width, generator=torch.Generator().manual_seed(height))
        return {name: t.numpy() for name, t in zip(names, [x, *more], strict=True)}

    found = myops.onnx.quantize(
        file, tmp_path / "int8.onnx", data=[feed(16, 20, example) for _ in range(3)]
    )
    session = myops.ort.session(tmp_path / "int8.onnx")
    for height, width in ((16, 20), (33, 47), (96, 80)):
        given = feed(height, width, other)
        (got,) = session.run(None, given)
        with torch.no_grad():
            wanted = model(*map(torch.from_numpy, given.values())).numpy()
        assert got.shape == wanted.shape
        assert np.linalg.norm(got - wanted) < 0.05 * np.linalg.norm(wanted)
    kinds = {node.kind for node in found.nodes if node.precision != "int8"}
    assert kinds & {"sizes", "coordinates"}
    assert any(node.precision == "int8" and node.op_type == "Conv" for node in found.nodes)
