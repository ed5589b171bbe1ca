"""homography_warp, slowly: one pixel, one plane, one neighbour at a time, in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def homography_warp(planes: Any, homographies: Any, size: Any) -> np.ndarray:
    planes, homographies = np.asarray(planes, np.float64), np.asarray(homographies, np.float64)
    planes = np.broadcast_to(planes, (len(homographies), *planes.shape[-4:]))
    height, width = (int(length) for length in size)
    image = np.zeros((len(homographies), 3, height, width))
    with np.errstate(all="ignore"):
        for n, y, x in np.ndindex(len(homographies), height, width):
            for plane, H in zip(planes[n], homographies[n], strict=True):
                r, g, b, alpha = look(plane, *(H @ [x, y, 1]))
                image[n, :, y, x] = alpha * np.array([r, g, b]) + (1 - alpha) * image[n, :, y, x]
    return image


def look(plane: np.ndarray, u: float, v: float, w: float) -> np.ndarray:
    """What the plane [4, H, W] has at the homogeneous point: red, green, blue, alpha."""
    found = np.zeros(4)
    if not w > 0 or not math.isfinite(u / w) or not math.isfinite(v / w):
        return found
    u, v = u / w, v / w
    for row in (math.floor(v), math.floor(v) + 1):
        for column in (math.floor(u), math.floor(u) + 1):
            if 0 <= row < plane.shape[1] and 0 <= column < plane.shape[2]:
                found += (1 - abs(v - row)) * (1 - abs(u - column)) * plane[:, row, column]
    return found
