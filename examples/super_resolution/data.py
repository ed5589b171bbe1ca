"""The photographs, how they are made small, and how a result is judged.

Every photograph is inside the wheels of scikit-image and scikit-learn: nothing is downloaded.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import IO

import numpy as np
import skimage.data
import torch
from numpy.typing import NDArray
from PIL import Image
from sklearn.datasets import load_sample_image
from torch import Tensor

Picture = NDArray[np.uint8]  # [H, W, 3], red, green, blue

TRAINING = (
    "brick",
    "camera",
    "cat",
    "china",
    "coffee",
    "coins",
    "flower",
    "grass",
    "gravel",
    "immunohistochemistry",
    "motorcycle",
    "rocket",
)
HELD_OUT = "astronaut"  # never trained on


def photograph(name: str) -> Picture:
    """A photograph of `TRAINING`, or the one held out. Grey ones get three equal channels."""
    if name in ("china", "flower"):  # scikit-learn's; the others are scikit-image's
        pixels = load_sample_image(f"{name}.jpg")
    elif name == "motorcycle":
        pixels = skimage.data.stereo_motorcycle()[0]  # the left eye's
    else:
        pixels = getattr(skimage.data, name)()
    return np.array(Image.fromarray(pixels).convert("RGB"))


def read(path: Path | IO[bytes]) -> Picture:
    """A picture file of the user's."""
    with Image.open(path) as image:
        return np.array(image.convert("RGB"))


def shrink(picture: Picture, factor: float) -> tuple[Picture, Picture]:
    """The small picture to enlarge by `factor`, and the picture that should come out.

    The small one has floor(H / factor) x floor(W / factor) pixels. It is Pillow's
    `Image.resize(..., BICUBIC)` of the 8-bit picture: a cubic kernel (a = -0.5) made wider by
    the factor, so it does not alias, rounded to 8 bits. Rows and columns at the bottom and the
    right that do not fill a whole small pixel are cut off both.

    Args:
        picture: uint8[H, W, 3], not smaller than `factor` either way.
        factor: 1 or more, as float32 holds it: the model gets it in that type.

    Returns:
        The small picture, and the top left of `picture` in the size that enlarging will give.
    """
    factor = float(np.float32(factor))
    height, width = (math.floor(length / factor) for length in picture.shape[:2])
    if factor < 1 or not height or not width:
        raise ValueError(f"shrink: got factor {factor:g} for a picture of {picture.shape[:2]}")
    source = (0.0, 0.0, width * factor, height * factor)
    small = Image.fromarray(picture).resize((width, height), Image.Resampling.BICUBIC, source)
    target = picture[: math.floor(height * factor), : math.floor(width * factor)]
    return np.array(small), target


def to_tensor(picture: Picture) -> Tensor:
    """uint8[H, W, 3] -> float32 Tensor[1, 3, H, W], 0 to 1."""
    return torch.from_numpy(picture.transpose(2, 0, 1)[None].astype(np.float32) / 255)


def to_picture(array: NDArray[np.float32]) -> Picture:
    """float32[1, 3, H, W] -> uint8[H, W, 3], clipped and rounded."""
    return np.rint(array[0].transpose(1, 2, 0).clip(0, 1) * 255).astype(np.uint8)


def to_scales(factor: float) -> Tensor:
    """The model's second input, Tensor[4]: [1, 1, factor, factor]."""
    return torch.tensor([1.0, 1.0, factor, factor])


def psnr(picture: Picture, target: Picture) -> float:
    """Peak signal-to-noise ratio in dB over all 8-bit pixels and channels; no border is left out.

    Formula: 10 log10(255^2 / mean((picture - target)^2)).
    """
    error = np.square(picture.astype(np.float64) - target).mean()
    return math.inf if error == 0 else 10 * math.log10(255**2 / error)
