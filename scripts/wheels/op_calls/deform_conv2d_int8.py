"""Calls of deform_conv2d_int8 whose bits are compared; see ../calls.py."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from call_values import Call, values


def calls() -> Iterator[Call]:
    for dtype, groups, limit in itertools.product(("uint8", "int8"), (1, 2), (1.0, 0.4)):
        title = f"deform_int8 {dtype} {groups} {limit}"
        attributes = {"group": groups, "offset_group": groups, "pads": [1] * 4,
                      "mask_limit": limit}  # fmt: skip
        taps = groups * 9
        numbers = values((2, 36, 13, 17), "uint8", title + "x").view(dtype)
        weight = values((24, 36 // groups, 3, 3), "uint8", title + "w").view("int8")
        offset = values((2, 2 * taps, 13, 17), "float32", title + "o") * np.float32(2.5)
        mask, bias = values((2, taps, 13, 17), "float32", title + "m"), None
        scale, zero = np.float32([0.125]), np.array([9], dtype)
        inputs = [numbers, scale, zero, weight, scale, offset, bias, mask]
        yield title, "deform_conv2d_int8", inputs, attributes
