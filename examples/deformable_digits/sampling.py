"""Draws the picture that shows where the deformable network samples a digit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from data import SIDE, place
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from model import Network
from torch import Tensor

import myops.nn

PLACEMENTS = ((12.0, 0.0), (18.0, 0.0), (25.0, 0.0), (25.0, -50.0), (25.0, 50.0))  # side, degrees
_POINTS = ((0.0, -2.2), (0.0, 2.2))  # of the digit that are followed: x, y in its own 8x8 pixels
_COLOURS = ("#ff6a3d", "#35c9ff")
_STEP = 2  # pixels of the picture from one pixel of the first layer's result to the next
_BORDER = 5.0  # pixels around the picture; a few taps lie even farther out


@dataclass(frozen=True)
class Taps:
    """Where a 3x3 layer samples its input: y and x in pixels, and how much each sample counts.

    Args:
        regular: Tensor[oH, oW, 9, 2], where a plain convolution samples.
        moved: Tensor[oH, oW, 9, 2], where this one does.
        mask: Tensor[oH, oW, 9], 0 to 1.
    """

    regular: Tensor
    moved: Tensor
    mask: Tensor


def taps_of(layer: myops.nn.ModulatedDeformConv2dPack, features: Tensor) -> Taps:
    """The taps of a 3x3 layer on one image, Tensor[1, C, H, W]."""
    offset, mask = layer.conv_offset(features)[0].split([18, 9])  # y and x of tap 0, of tap 1, ...
    height, width = mask.shape[1:]
    pixel, tap = torch.cartesian_prod(torch.arange(height), torch.arange(width)), torch.arange(3)
    start = pixel.reshape(height, width, 1, 2) * layer.stride[0] - layer.padding[0]
    regular = start + torch.cartesian_prod(tap, tap).float()
    moved = regular + offset.reshape(9, 2, height, width).permute(2, 3, 0, 1)
    return Taps(regular, moved, mask.sigmoid().permute(1, 2, 0))


@torch.no_grad()
def taps_of_both(network: Network, picture: Tensor) -> tuple[Taps, Taps]:
    """The taps of the second and the third layer on one picture, Tensor[1, 1, 28, 28]."""
    features = torch.relu(network.norm1(network.conv1(picture)))
    second = taps_of(network.conv2, features)
    features = torch.relu(network.norm2(network.conv2(features)))
    return second, taps_of(network.conv3, features)


def through_both(second: Taps, third: Taps, row: int, column: int) -> tuple[Tensor, Tensor]:
    """All that one pixel of the third layer's result sees: 9 taps of 9 taps.

    A tap of the third layer lies between pixels of the second layer's result; the taps of the
    nearest one are taken, moved by what is left.

    Returns:
        Positions in the first layer's result, Tensor[81, 2], and the product of the two masks of
        each, Tensor[81].
    """
    middle = third.moved[row, column]
    height, width = second.mask.shape[:2]
    y, x = middle.round().long().unbind(1)
    inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
    nearest = torch.stack([y.clamp(0, height - 1), x.clamp(0, width - 1)], dim=1)
    taps = second.moved[nearest[:, 0], nearest[:, 1]] + (middle - nearest)[:, None]
    weight = second.mask[nearest[:, 0], nearest[:, 1]] * third.mask[row, column][:, None]
    return taps[inside].reshape(-1, 2), weight[inside].reshape(-1)


def output_pixel(point: tuple[float, float], side: float, degrees: float) -> tuple[int, int]:
    """Row and column in the third layer's result, 7x7, that lie nearest to a point of the digit."""
    angle, scale = math.radians(degrees), side / 8
    x = (point[0] * math.cos(angle) - point[1] * math.sin(angle)) * scale
    y = (point[0] * math.sin(angle) + point[1] * math.cos(angle)) * scale
    middle = (SIDE - 1) / 2
    return round((middle + y) / (2 * _STEP)), round((middle + x) / (2 * _STEP))


def draw(network: Network, image: Tensor, path: Path) -> None:
    """Writes the picture: a column for each placing of the digit, four rows of sampling positions.

    Args:
        network: The deformable one.
        image: Tensor[1, 1, 8, 8], the digit.
        path: A .png to write.
    """
    titles = (
        "plain:\nthe same grid\neverywhere",
        "deformable:\n9 taps of the\nlast layer",
        "through both layers:\n9 x 9 positions,\nupper point",
        "through both layers:\n9 x 9 positions,\nlower point",
    )
    figure = Figure(figsize=(2.5 * len(PLACEMENTS) + 1.5, 10.4), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(
        "What two pixels of the last layer see ( + ): arrows lead from the regular position to the "
        "learned one, the size of a dot is the mask",
        fontsize=12,
    )
    axes = figure.subplots(len(titles), len(PLACEMENTS))
    for axis, title in zip(axes[:, 0], titles, strict=True):
        axis.set_ylabel(title, fontsize=12, rotation=0, ha="right", va="center")
    for column, (side, degrees) in zip(axes.T, PLACEMENTS, strict=True):
        column[0].set_title(f"{side:.0f} pixels, {degrees:.0f}°", fontsize=12)
        picture = place(image, torch.tensor([side]), torch.tensor([degrees]), torch.zeros(1, 2))
        for axis in column:
            _background(axis, picture[0, 0])
        second, third = taps_of_both(network, picture)
        for number, (point, colour) in enumerate(zip(_POINTS, _COLOURS, strict=True)):
            pixel = output_pixel(point, side, degrees)
            regular, moved, mask = (x[pixel] for x in (third.regular, third.moved, third.mask))
            plain = (regular[:, None] + regular - regular[4]).reshape(-1, 2)
            _dots(column[0], plain, torch.full((81,), 0.4), colour, 25)
            _arrows(column[1], regular, moved, colour)
            _dots(column[1], moved, mask, colour, 50)
            _dots(column[2 + number], *through_both(second, third, *pixel), colour, 45)
            for axis in (column[0], column[1], column[2 + number]):
                x, y = pixel[1] * 2 * _STEP, pixel[0] * 2 * _STEP
                axis.plot(x, y, "+", color="white", markersize=11, markeredgewidth=2)
    figure.savefig(path)


def _background(axis: Any, picture: Tensor) -> None:
    """The digit, dimmed, with a border for taps that lie outside, where all is 0."""
    axis.set(facecolor="#101018", xticks=[], yticks=[])
    axis.imshow(picture.numpy(), cmap="gray", vmin=-0.12, vmax=1.7)
    axis.add_patch(Rectangle((-0.5, -0.5), SIDE, SIDE, fill=False, edgecolor="#505060"))
    axis.set(xlim=(-_BORDER, SIDE - 1 + _BORDER), ylim=(SIDE - 1 + _BORDER, -_BORDER))


def _dots(axis: Any, positions: Tensor, weight: Tensor, colour: str, area: float) -> None:
    y, x = (positions * _STEP).numpy().T
    axis.scatter(x, y, (weight * area + 1).numpy(), color=colour, linewidths=0)


def _arrows(axis: Any, start: Tensor, end: Tensor, colour: str) -> None:
    y, x = (start * _STEP).numpy().T
    down, right = ((end - start) * _STEP).numpy().T
    exact = {"angles": "xy", "scale_units": "xy", "scale": 1}  # in pixels of the picture
    axis.quiver(x, y, right, down, color=colour, width=0.006, headwidth=4, **exact)
