"""Calls of every kernel whose bits must not depend on processor, compiler, Python or torch.

    python scripts/wheels/calls.py            digest of each call's results, as JSON

Needs the installed package, NumPy and ml_dtypes. All values come from random integers, as functions
such as the exponential differ between C libraries.
"""

from __future__ import annotations

import hashlib
import importlib
import itertools
import json
import zlib
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np

FLOATS = ("float16", "bfloat16", "float32", "float64")
MODES = ("nearest", "linear", "cubic", "area")
COORDINATES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
               "asymmetric")  # fmt: skip

Call = tuple[str, str, list[Any], dict[str, Any]]  # title, op, inputs, attributes


def values(shape: tuple[int, ...], dtype: str, seed: str) -> np.ndarray:
    """Numbers in [-1, 1), the same on every machine."""
    whole = np.random.Generator(np.random.PCG64(zlib.crc32(seed.encode())))
    numbers = whole.integers(-(2**15), 2**15, shape)
    if np.dtype(_dtype(dtype)).kind in "iu":
        return np.asarray(numbers % 251, dtype)
    return np.asarray(numbers / 2**15, _dtype(dtype))


def _dtype(name: str) -> Any:
    return ml_dtypes.bfloat16 if name == "bfloat16" else name


def calls() -> Iterator[Call]:
    yield from _my_add()
    yield from _resize()
    yield from _deform()
    yield from _deform_int8()


def _my_add() -> Iterator[Call]:
    for dtype in (*FLOATS, "int32", "int64"):
        for a, b in (((1037,), (1037,)), ((7, 13, 33), (33,)), ((5, 1, 9), (1, 17, 9)), ((4,), ())):
            title = f"my_add {dtype} {a} {b}"
            yield (
                title,
                "my_add",
                [values(a, dtype, title + "a"), values(b, dtype, title + "b")],
                {},
            )


def _resize() -> Iterator[Call]:
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


def _deform() -> Iterator[Call]:
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
        offset = offset.astype(_dtype(dtype))
        bias = values((filters,), dtype, title + "b")
        mask = values((n, taps, h, w), dtype, title + "m") if masked else None
        yield title, "deform_conv2d", [x, weight, offset, bias, mask], attributes
        grad = values((n, filters, h, w), dtype, title + "g")
        inputs = [grad, x, weight, offset, mask]
        yield f"{title} backward", "deform_conv2d_backward", inputs, attributes


def _deform_int8() -> Iterator[Call]:
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


def digests(module: Any, threads: int = 2) -> dict[str, str]:
    """Title -> SHA-256 of the results of a call, by a module `_numpy`."""
    ops = {op.describe()["name"]: op for op in module.OPS}
    found = {}
    for title, op, inputs, attributes in calls():
        digest = hashlib.sha256()
        for result in ops[op].call(inputs, attributes, threads):
            if result is not None:
                digest.update(f"{result.dtype}{result.shape}".encode())
                digest.update(np.ascontiguousarray(result).tobytes())
        found[title] = digest.hexdigest()[:16]
    return found


if __name__ == "__main__":
    print(json.dumps(digests(importlib.import_module("myops._numpy"))))
