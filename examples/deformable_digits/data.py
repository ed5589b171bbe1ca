"""Handwritten digits, randomly scaled, rotated and moved on an empty picture.

The 1797 digits of 8x8 pixels are inside the wheel of scikit-learn: nothing is downloaded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor

SIDE = 28  # pixels of a picture
SMALLEST, LARGEST = 10.0, 26.0  # pixels of a digit
TURN = 60.0  # degrees either way: further, and a 6 becomes a 9

_HELD_OUT = 597  # of 1797 digits; no picture of theirs is ever trained on
_SPLIT_SEED = 0


@dataclass(frozen=True)
class Digits:
    """Some handwritten digits.

    Args:
        images: Tensor[N, 1, 8, 8], float32, 0 (paper) to 1 (ink).
        labels: Tensor[N], int64, 0 to 9.
    """

    images: Tensor
    labels: Tensor


def split() -> tuple[Digits, Digits]:
    """1200 digits to train on and 597 held out, always the same ones, classes in proportion."""
    images, labels = load_digits(return_X_y=True)
    parts = train_test_split(
        images, labels, test_size=_HELD_OUT, random_state=_SPLIT_SEED, stratify=labels
    )
    train_images, test_images, train_labels, test_labels = (torch.from_numpy(x) for x in parts)

    def digits(images: Tensor, labels: Tensor) -> Digits:
        return Digits(images.float().reshape(-1, 1, 8, 8) / 16, labels.long())

    return digits(train_images, train_labels), digits(test_images, test_labels)


def place(images: Tensor, side: Tensor, degrees: Tensor, centre: Tensor) -> Tensor:
    """Draws each image on an empty picture of 28x28 pixels.

    Args:
        images: Tensor[N, 1, 8, 8].
        side: Tensor[N], how many pixels of the picture the image's 8 become.
        degrees: Tensor[N], turned clockwise.
        centre: Tensor[N, 2], x and y of the image's centre, in pixels from the picture's centre.

    Returns:
        Tensor[N, 1, 28, 28], 0 to 1.
    """
    angle = degrees * (math.pi / 180)
    cos, sin = torch.cos(angle) * SIDE / side, torch.sin(angle) * SIDE / side
    # From a point of the picture to the point of the image that it shows; both run from -1 to 1.
    turn = torch.stack([cos, sin, -sin, cos], dim=1).reshape(-1, 2, 2)
    shift = -turn @ (centre * (2 / SIDE)).unsqueeze(2)
    grid = F.affine_grid(torch.cat([turn, shift], dim=2), [len(images), 1, SIDE, SIDE], False)
    return F.grid_sample(images, grid, mode="bicubic", align_corners=False).clamp(0, 1)


def scatter(images: Tensor, generator: torch.Generator) -> Tensor:
    """Places each image at random: 10 to 26 pixels large, 60 degrees either way, anywhere.

    Args:
        images: Tensor[N, 1, 8, 8].
        generator: The same state gives the same pictures.

    Returns:
        Tensor[N, 1, 28, 28], 0 to 1.
    """
    size, turn, x, y = torch.rand(4, len(images), generator=generator)
    side = SMALLEST + (LARGEST - SMALLEST) * size
    room = (SIDE - side) / 2
    centre = torch.stack([x * 2 - 1, y * 2 - 1], dim=1) * room.unsqueeze(1)
    return place(images, side, (turn * 2 - 1) * TURN, centre)


def held_out_pictures(copies: int = 4) -> tuple[Tensor, Tensor]:
    """What accuracy is measured on: every held-out digit, `copies` times at random, seeded.

    Returns:
        Pictures Tensor[597 * copies, 1, 28, 28] and labels Tensor[597 * copies].
    """
    held_out = split()[1]
    images, labels = held_out.images.repeat(copies, 1, 1, 1), held_out.labels.repeat(copies)
    return scatter(images, torch.Generator().manual_seed(_SPLIT_SEED)), labels
