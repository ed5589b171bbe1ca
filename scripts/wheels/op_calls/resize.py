"""Calls of resize whose bits are compared; see ../calls.py."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator

import numpy as np
from call_values import FLOATS, Call, values

MODES = ("nearest", "linear", "cubic", "area")
COORDINATES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
               "asymmetric")  # fmt: skip


def calls() -> Iterator[Call]:
    shapes = ((1, 3, 17, 23), (2, 16, 9, 31))
    factors = ((2.0, 2.0), (0.5, 0.5), (2.5, 1.7), (0.37, 0.81))
    for dtype, mode, shape, factor in itertools.product((*FLOATS, "uint8"), MODES, shapes, factors):
        number = zlib.crc32(f"{dtype}{mode}{shape}{factor}".encode())
        attributes = {
            "mode": mode,
            "coordinate_transformation_mode": COORDINATES[number % len(COORDINATES)],
            "antialias": mode in ("linear", "cubic") and number % 2 == 1,
            "torch_arithmetic": number % 3 == 0,
            "exclude_outside": mode == "cubic" and number % 5 == 0,
        }
        if mode == "area":
            attributes = {"mode": mode, "torch_arithmetic": True}
        title = f"resize {dtype} {mode} {shape} {factor}"
        x = values(shape, dtype, title)
        sizes = np.array(
            [*shape[:2], *(int(n * f) for n, f in zip(shape[2:], factor, strict=True))]
        )
        inputs = [x, None, None, sizes.astype(np.int64)]
        yield title, "resize", inputs, attributes
        if dtype != "uint8":
            grad = values(tuple(sizes), dtype, title + " grad")
            yield f"{title} backward", "resize_backward", [grad, *inputs], attributes
