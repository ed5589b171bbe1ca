"""resize: torch's interpolate and, where it computes the same, OpenCV.

torch has no antialiasing for 16-bit types, and its sums of 8-bit integers can be far off: for these
types the computation in float32 is a peer as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

import myops
from benchmarks.case import Candidate
from benchmarks.random_shapes.draw import Resize
from benchmarks.random_shapes.problem import TOLERANCE, Gradient, Problem, channels_last, normal

NARROW = ("bfloat16", "float16", "uint8")
NEAR_A_JUMP = 1e-3  # pixels: where float32 and float64 may choose other elements in "nearest"


def problem(shape: Resize, seed: int) -> Problem:
    x = normal(shape.shape, shape.dtype, seed)
    if shape.channels_last:
        x = channels_last(x)
    tables = [
        axis_table(shape, n, o) for n, o in zip(shape.shape[2:], shape.size, strict=True)
    ]  # fmt: skip
    settings = {"mode": shape.mode, "antialias": shape.antialias}
    if shape.mode.endswith(("linear", "cubic")):
        settings["align_corners"] = shape.align_corners
    if shape.backward:
        return _backward(shape, x, tables, settings, seed)
    expected = x.double()
    for axis, (index, weight, _) in enumerate(tables, 2):
        expected = resampled(expected, axis, index, weight)
    if shape.dtype == "uint8":
        expected = expected.round().clamp(0, 255)
    compared = None
    if not all(bool(certain.all()) for _, _, certain in tables):
        compared = torch.ones((), dtype=torch.bool)
        for axis, (_, _, certain) in enumerate(tables, 2):
            compared = compared & certain.view(-1, *[1] * (x.dim() - axis - 1))
    ours = partial(myops.interpolate, x, size=shape.size, **settings)
    peers = [
        Candidate(
            "torch", partial(F.interpolate, x, size=shape.size, **settings), lambda y: [y],
            "allocated",
        ),
        *_opencv(shape, x),
    ]  # fmt: skip
    if shape.dtype in NARROW:
        wide = partial(_in_float32, x, size=shape.size, **settings)
        peers.append(Candidate("torch in float32", wide, lambda y: [y], "allocated"))
    mine = Candidate("myops", ours, lambda y: [y], "allocated", "torch")
    return Problem([mine, *peers], [expected], TOLERANCE[shape.dtype], ours, [compared])


def _backward(
    shape: Resize, x: torch.Tensor, tables: list[Table], settings: dict[str, object], seed: int
) -> Problem:
    grad = normal((*shape.shape[:2], *shape.size), shape.dtype, seed + 1)
    if shape.channels_last:
        grad = channels_last(grad)
    x.requires_grad_(True)
    expected = grad.double()
    for axis, (index, weight, _) in enumerate(tables, 2):
        expected = spread(expected, axis, index, weight, shape.shape[axis])
    compared = None
    if not all(bool(certain.all()) for _, _, certain in tables):
        compared = torch.ones((), dtype=torch.bool)
        for axis, (index, _, certain) in enumerate(tables, 2):
            reached = torch.ones(shape.shape[axis], dtype=torch.bool)
            for step in (-1, 0, 1):  # an output at a jump may belong to either element
                unsure = (index[~certain] + step).clamp(0, shape.shape[axis] - 1)
                reached[unsure.reshape(-1)] = False
            compared = compared & reached.view(-1, *[1] * (x.dim() - axis - 1))
    functions = {"myops": myops.interpolate, "torch": F.interpolate}
    if shape.dtype in NARROW:
        functions["torch in float32"] = _in_float32
    candidates = [
        Candidate(
            name, Gradient(partial(function, size=shape.size, **settings), {"input": x}, grad),
            lambda grads: grads, "allocated", "torch" if name == "myops" else "peer",
        ) for name, function in functions.items()
    ]  # fmt: skip
    return Problem(candidates, [expected], TOLERANCE[shape.dtype], candidates[0].run, [compared])


def _in_float32(input: torch.Tensor, **settings: Any) -> torch.Tensor:
    wide = F.interpolate(input.float(), **settings)
    if input.dtype == torch.uint8:
        wide = wide.round_().clamp_(0, 255)
    return wide.to(input.dtype)


# For each output the elements that it reads and their weights, and whether they are certain.
Table = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def axis_table(shape: Resize, length: int, size: int) -> Table:
    """One axis in float64, as torch defines each mode: index and weight [size, taps]."""
    o = np.arange(size, dtype=np.float64)[:, None]
    certain = np.ones(size, bool)
    if shape.mode == "area":
        first = np.floor(o * length / size)
        last = np.ceil((o + 1) * length / size)
        k = np.arange(int((last - first).max()))
        index, weight = first + k, (first + k < last) / (last - first)
    elif shape.mode.startswith("nearest"):
        position = (o + 0.5 * (shape.mode == "nearest-exact")) * length / size
        index, weight = np.floor(position), np.ones((size, 1))
        certain = (np.abs(position - np.round(position)) > NEAR_A_JUMP)[:, 0]
        certain |= length % size == 0 or size % length == 0
    else:
        scale = length / size
        if shape.align_corners:
            scale = (length - 1) / (size - 1) if size > 1 else 0.0
        cubic = shape.mode == "bicubic"
        if shape.antialias:
            index, weight = _antialias(o, length, scale, cubic)
        else:
            position = o * scale if shape.align_corners else (o + 0.5) * scale - 0.5
            position = position if cubic else np.maximum(position, 0)
            k = np.arange(-1, 3) if cubic else np.arange(2)
            index = np.floor(position) + k
            weight = (_cubic(index - position, -0.75) if cubic
                      else np.maximum(1 - np.abs(index - position), 0))  # fmt: skip
    clipped = np.clip(index, 0, length - 1).astype(np.int64)
    return torch.from_numpy(clipped), torch.from_numpy(weight), torch.from_numpy(certain)


def _antialias(
    o: np.ndarray, length: int, scale: float, cubic: bool
) -> tuple[np.ndarray, np.ndarray]:
    stretch = max(scale, 1.0)
    support = (2 if cubic else 1) * stretch
    centre = scale * (o + 0.5)
    first = np.maximum(np.trunc(centre - support + 0.5), 0)
    last = np.minimum(np.trunc(centre + support + 0.5), length)
    index = first + np.arange(max(int((last - first).max()), 1))
    distance = (index - centre + 0.5) / stretch
    weight = _cubic(distance, -0.5) if cubic else np.maximum(1 - np.abs(distance), 0)
    weight = np.where(index < last, weight, 0)
    total = weight.sum(axis=1, keepdims=True)
    return index, weight / np.where(total == 0, 1, total)


def _cubic(distance: np.ndarray, a: float) -> np.ndarray:
    """The kernel of Keys."""
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d**2 + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


def resampled(
    x: torch.Tensor, axis: int, index: torch.Tensor, weight: torch.Tensor
) -> torch.Tensor:
    """Resizes one axis of x with its table of taps."""
    column = [-1, *[1] * (x.dim() - axis - 1)]
    result = torch.zeros(())
    for k in range(index.shape[1]):
        result = result + x.index_select(axis, index[:, k]) * weight[:, k].view(column)
    return result


def spread(
    grad: torch.Tensor, axis: int, index: torch.Tensor, weight: torch.Tensor, length: int
) -> torch.Tensor:
    """The transpose of `resampled`."""
    column = [-1, *[1] * (grad.dim() - axis - 1)]
    sizes = list(grad.shape)
    sizes[axis] = length
    result = torch.zeros(sizes, dtype=torch.float64)
    for k in range(index.shape[1]):
        result.index_add_(axis, index[:, k], grad * weight[:, k].view(column))
    return result


def _opencv(shape: Resize, x: torch.Tensor) -> Iterator[Candidate]:
    """One image, in the layout that it has: HWC at once, or plane by plane."""
    try:
        import cv2
    except ImportError:
        return
    how = {"nearest": cv2.INTER_NEAREST, "nearest-exact": cv2.INTER_NEAREST_EXACT,
           "bilinear": cv2.INTER_LINEAR, "bicubic": cv2.INTER_CUBIC,
           "area": cv2.INTER_AREA}.get(shape.mode)  # fmt: skip
    image = shape.shape[0] == 1 and len(shape.size) == 2
    usual = image and not (shape.align_corners or shape.antialias)
    if how is None or not usual or shape.dtype not in ("float32", "float64", "uint8"):
        return
    channels = shape.shape[1]
    size, interpolation = shape.size[::-1], how
    if shape.channels_last and channels <= 4:
        pixels = x[0].permute(1, 2, 0).numpy()
        yield Candidate(
            "OpenCV", lambda: cv2.resize(pixels, size, interpolation=interpolation),
            lambda y: [y.reshape(*shape.size, channels).transpose(2, 0, 1)[None]], "allocated",
        )  # fmt: skip
    elif not shape.channels_last:
        planes = list(x[0].numpy())

        def run() -> np.ndarray:
            out = np.empty((1, channels, *shape.size), planes[0].dtype)
            for plane, target in zip(planes, out[0], strict=True):
                cv2.resize(plane, size, dst=target, interpolation=interpolation)
            return out

        yield Candidate("OpenCV planes", run, lambda y: [y], "allocated")
