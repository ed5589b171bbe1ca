"""One picture of all three ops: python demo.py [gallery.png]

The scenes are made here. Every picture is computed by PyTorch and, from an exported file, by ONNX
Runtime, and must be the same bit for bit.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import matplotlib
import numpy as np
import torch
from myops_gallery import homography_warp, splat_points, volume_render
from torch import Tensor

import myops.onnx
import myops.ort

SIZE = 200  # height and width of each picture
WIDE = 320  # width of the planes: the camera sees beyond its picture
ANGLES = (-0.35, 0.0, 0.35)  # of the cameras that look at points and volume, in radians


class Call(torch.nn.Module):
    """A function as a model."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *arguments: Tensor) -> Tensor:
        return self.function(*arguments)


def twice(function: Callable[..., Tensor], *arguments: Tensor) -> Tensor:
    """What PyTorch computes, once ONNX Runtime has computed the same from a file."""
    expected = function(*arguments)
    names = [f"input_{number}" for number in range(len(arguments))]
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "model.onnx")
        myops.onnx.export(Call(function), arguments, file, input_names=names)
        feed = {name: item.numpy() for name, item in zip(names, arguments, strict=True)}
        (result,) = myops.ort.session(file).run(None, feed)
    assert np.array_equal(result, expected.numpy())
    return expected


def pixels(width: int = SIZE) -> tuple[Tensor, Tensor]:
    """y and x of all pixels; from -1 to 1, or further where it is wider than high."""
    lines = [(torch.arange(n) + 0.5 - n / 2) / (SIZE / 2) for n in (SIZE, width)]
    y, x = torch.meshgrid(*lines, indexing="ij")
    return y, x


def turn(angle: float) -> Tensor:
    """A rotation about the vertical axis."""
    c, s = math.cos(angle), math.sin(angle)
    return torch.tensor([[c, 0, s], [0, 1, 0], [-s, 0, c]])


def plane(color: tuple[float, float, float], inside: Tensor) -> Tensor:
    """One plane with alpha, where `inside` is positive; with stripes, to show how it moves."""
    y, x = pixels(WIDE)
    stripes = 0.95 + 0.05 * torch.sin(30 * (x + y))
    alpha = (inside * 60).clamp(0, 1)
    return torch.cat([torch.tensor(color)[:, None, None] * stripes, alpha[None]])


def multiplane() -> Tensor:
    """Sky, sun, hills and a fence on five planes, from a camera that moves to the right."""
    y, x = pixels(WIDE)
    hills = (y - 0.15 - 0.12 * torch.sin(5 * x), y - 0.4 - 0.1 * torch.sin(4 * x + 2))
    fence = torch.maximum(0.05 - (x * 2.5 - (x * 2.5).round()).abs(), 0.04 - (y - 0.55).abs())
    fence = torch.minimum(fence, y - 0.3)
    planes = torch.stack([
        plane((0.55, 0.75, 0.95), torch.ones_like(x)),
        plane((1.0, 0.85, 0.3), 0.25 - torch.hypot(x - 0.2, y + 0.35)),
        plane((0.35, 0.6, 0.4), hills[0]),
        plane((0.2, 0.45, 0.2), hills[1]),
        plane((0.45, 0.25, 0.12), fence),
    ])  # fmt: skip
    middle = (SIZE - 1) / 2
    K = torch.tensor([[SIZE / 2, 0, middle], [0, SIZE / 2, middle], [0, 0, 1]])
    to_plane = torch.tensor([[1, 0, (WIDE - SIZE) / 2], [0, 1, 0], [0, 0, 1]]) @ K
    maps = []
    for move in (-0.25, 0.0, 0.25):
        # The ray K^-1 p of a camera at c meets the plane z = depth in K (depth I + c e_z^T) K^-1 p.
        c = torch.tensor([[move, 0, 0]]).T
        rows = [depth * torch.eye(3) + c * torch.tensor([[0, 0, 1.0]]) for depth in (8, 5, 3, 2, 1)]
        maps.append(to_plane @ torch.stack(rows) @ K.inverse())
    return twice(lambda *a: homography_warp(*a, [SIZE, SIZE]), planes, torch.stack(maps))


def points() -> Tensor:
    """50000 points on a knotted tube, drawn from three sides."""
    generator = torch.Generator().manual_seed(0)
    t, around = torch.rand(2, 50000, generator=generator) * 2 * math.pi
    ring = 0.62 + 0.24 * torch.cos(3 * t)
    middle = torch.stack([ring * torch.cos(2 * t), ring * torch.sin(2 * t), 0.3 * torch.sin(3 * t)])
    outward = torch.stack([torch.cos(2 * t) * torch.cos(around),
                           torch.sin(2 * t) * torch.cos(around), torch.sin(around)])  # fmt: skip
    place = middle + 0.11 * outward
    light = 0.35 + 0.65 * (outward * torch.tensor([[-0.5], [-0.6], [-0.6]])).sum(0).clamp(0, 1)
    hue = torch.stack([t, t + 2, t + 4])
    features = ((0.6 + 0.4 * torch.sin(hue)) * light).T.expand(3, -1, -1)
    seen = torch.stack([turn(2 * angle) @ place for angle in ANGLES]).transpose(1, 2)
    depth = seen[..., 2:] + 3
    seen = torch.cat([seen[..., :2] / depth * SIZE * 1.35 + SIZE / 2, depth], -1)
    return twice(lambda *a: splat_points(*a, [SIZE, SIZE], radius=2.2, k=8), seen, features)


def volume() -> Tensor:
    """Three cores in glassy shells, with 64 samples along every ray."""
    y, x = pixels()
    rays = torch.stack([x, y, torch.full_like(x, 2.2)], -1).reshape(-1, 3)
    rays = rays / rays.norm(dim=1, keepdim=True)
    step = 2.6 / 64
    distances = 1.1 + step * (torch.arange(64) + 0.5)
    found = []
    for angle in ANGLES:
        eye = torch.tensor([0, 0, -2.4])
        place = (eye + rays[:, None] * distances[:, None]) @ turn(2 * angle).T
        density, color = torch.zeros(place.shape[:2]), torch.zeros(place.shape)
        for k in range(3):
            turned = 2 * math.pi * k / 3
            core = torch.tensor([0.4 * math.cos(turned), 0.4 * math.sin(turned), 0.3 * (k - 1)])
            from_core = (place - core).norm(dim=-1)
            shell = torch.exp(-(((from_core - 0.32) / 0.05) ** 2))
            part = 3 * shell + 25 * torch.exp(-((from_core / 0.1) ** 2))
            density = density + part
            color = color + part[..., None] * (0.25 + 0.75 * torch.eye(3)[k])
        color = color / density[..., None].clamp(min=1e-6)
        scene = (density, color, torch.full_like(density, step))
        found.append(twice(lambda *a: volume_render(*a, background=1.0)[0], *scene))
    return torch.stack(found).reshape(3, SIZE, SIZE, 3).permute(0, 3, 1, 2)


ROWS = {
    "homography_warp: five planes": multiplane,
    "splat_points: 50000 points": points,
    "volume_render: 64 samples a ray": volume,
}


def main(file: str = "gallery.png") -> None:
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, rows = pyplot.subplots(len(ROWS), 3, figsize=(6.3, 6.9), dpi=100)
    for row, (title, make) in zip(rows, ROWS.items(), strict=True):
        for axes, image in zip(row, make(), strict=True):
            axes.imshow(image.clamp(0, 1).permute(1, 2, 0).numpy(), interpolation="nearest")
            axes.axis("off")
        row[1].set_title(title, fontsize=9)
        print(f"{title}: PyTorch and ONNX Runtime agree bit for bit")
    figure.subplots_adjust(0.01, 0.01, 0.99, 0.96, 0.03, 0.1)
    figure.savefig(file)
    print(file)


if __name__ == "__main__":
    main(*sys.argv[1:])
