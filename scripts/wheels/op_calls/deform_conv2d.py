"""Calls of deform_conv2d whose bits are compared; see ../calls.py."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from call_values import FLOATS, Call, numpy_dtype, values


def calls() -> Iterator[Call]:
    settings = itertools.product(
        FLOATS, ((1, 4, 13, 17, 6), (2, 16, 9, 11, 8)), (1, 2), (False, True), (3, 1)
    )
    for dtype, (n, c, h, w, filters), groups, masked, size in settings:
        title = f"deform {dtype} {(n, c, h, w, filters)} {groups} {masked} {size}"
        pad = size // 2
        attributes = {"group": groups, "offset_group": groups, "pads": [pad] * 4,
                      "kernel_shape": [size, size]}  # fmt: skip
        taps = groups * size * size
        x = values((n, c, h, w), dtype, title + "x")
        weight = values((filters, c // groups, size, size), dtype, title + "w")
        offset = values((n, 2 * taps, h, w), "float64", title + "o") * 2.5
        offset = offset.astype(numpy_dtype(dtype))
        bias = values((filters,), dtype, title + "b")
        mask = values((n, taps, h, w), dtype, title + "m") if masked else None
        yield title, "deform_conv2d", [x, weight, offset, bias, mask], attributes
        grad = values((n, filters, h, w), dtype, title + "g")
        inputs = [grad, x, weight, offset, mask]
        yield f"{title} backward", "deform_conv2d_backward", inputs, attributes
