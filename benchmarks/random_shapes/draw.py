"""Random configurations. Each depends on the seed, the kind and its number only, so one can be made
again alone, and a longer run begins with the configurations of a shorter one."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

KINDS = (
    "resize", "resize backward", "deform_conv2d", "deform_conv2d backward", "my_add",
    "resize of images",
)  # fmt: skip

# Elements of input and output together, and samples of a deformable convolution: each
# configuration then takes milliseconds.
MOST_ELEMENTS = 4_000_000
MOST_SAMPLES = 3_000_000
FLOATS = ("float32", "float64", "bfloat16", "float16")


@dataclass(frozen=True)
class Resize:
    """A call of `interpolate`. `size` is the length of each resized axis in the result."""

    shape: tuple[int, ...]
    size: tuple[int, ...]
    mode: str  # as torch names it
    dtype: str
    align_corners: bool = False
    antialias: bool = False
    channels_last: bool = False
    backward: bool = False

    def __str__(self) -> str:
        words = [by(self.shape), *["channels_last"] * self.channels_last, "->", by(self.size)]
        words += [self.mode, self.dtype, *["align_corners"] * self.align_corners]
        return " ".join([*words, *["antialias"] * self.antialias])


@dataclass(frozen=True)
class Deform:
    """A call of `deform_conv2d`; pairs are y, x."""

    shape: tuple[int, int, int, int]
    filters: int
    kernel: tuple[int, int]
    dtype: str
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    offset_groups: int = 1
    mask: bool = True
    channels_last: bool = False
    backward: bool = False
    spread: float = 1.2  # the standard deviation of offsets, in pixels

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the result; not above 0 where the kernel does not fit."""
        lengths = [
            (self.shape[2 + axis] + 2 * self.padding[axis]
             - self.dilation[axis] * (self.kernel[axis] - 1) - 1) // self.stride[axis] + 1
            for axis in (0, 1)
        ]  # fmt: skip
        return lengths[0], lengths[1]

    @property
    def samples(self) -> int:
        return math.prod((*self.shape[:2], *self.size, *self.kernel))

    def __str__(self) -> str:
        words = [by(self.shape), *["channels_last"] * self.channels_last, f"-> {self.filters},"]
        words.append(f"kernel {by(self.kernel)}")
        for name in ("stride", "padding", "dilation"):
            pair = getattr(self, name)
            if pair != ((0, 0) if name == "padding" else (1, 1)):
                words.append(f"{name} {by(pair)}")
        words += [f"{self.groups} groups"] * (self.groups > 1)
        words += [f"{self.offset_groups} offset groups"] * (self.offset_groups > 1)
        words += [f"offsets of {self.spread:.0f} pixels"] * (self.spread > 2)
        return " ".join([*words, "mask" if self.mask else "no mask", self.dtype])


@dataclass(frozen=True)
class Add:
    """A call of `my_add`: each operand has the result's axes, of its length or 1; `order` of the
    axes in memory, the slowest first."""

    shape: tuple[int, ...]
    a: tuple[int, ...]
    b: tuple[int, ...]
    a_order: tuple[int, ...]
    b_order: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        plain = tuple(range(len(self.shape)))
        names = [
            by(shape) + (f" in memory order {order}" if order != plain else "")
            for shape, order in ((self.a, self.a_order), (self.b, self.b_order))
        ]
        return f"{names[0]} + {names[1]} {self.dtype}"


Shape = Resize | Deform | Add


def by(lengths: tuple[int, ...]) -> str:
    return "x".join(map(str, lengths))


def draw(kind: str, seed: int, number: int) -> Shape:
    """Configuration `number` of a kind.

    Example:
        >>> draw("resize", 1, 7) == draw("resize", 1, 7)
        True
    """
    rng = np.random.default_rng([seed, KINDS.index(kind), number])
    if kind == "my_add":
        return _my_add(rng)
    if kind == "resize of images":
        return _image(rng)
    backward = kind.endswith("backward")
    return _deform(rng, backward) if kind.startswith("deform") else _resize(rng, backward)


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def _length(rng: np.random.Generator, low: int, high: int) -> int:
    return round(_log_uniform(rng, low, high))


def _one_of(rng: np.random.Generator, items: Any, weights: Any = None) -> Any:
    p = None if weights is None else np.array(weights) / np.sum(weights)
    return items[int(rng.choice(len(items), p=p))]


def _resize(rng: np.random.Generator, backward: bool) -> Resize:
    rank = _one_of(rng, (2, 1, 3), (0.88, 0.06, 0.06))  # the axes that are resized
    modes = {1: ("nearest", "nearest-exact", "linear", "area"),
             2: ("nearest", "nearest-exact", "bilinear", "bicubic", "area"),
             3: ("nearest", "nearest-exact", "trilinear", "area")}[rank]  # fmt: skip
    weights = [0.12, 0.08, *[0.3] * (len(modes) - 3), 0.15]
    mode = _one_of(rng, modes, weights)
    dtypes = FLOATS if backward or mode == "area" or rank != 2 else (*FLOATS, "uint8")
    dtype = _one_of(rng, dtypes, [0.45, 0.15, 0.15, 0.15, 0.1][: len(dtypes)])
    smooth = mode in ("linear", "bilinear", "bicubic", "trilinear")
    antialias = mode in ("bilinear", "bicubic") and bool(rng.random() < 0.3)
    align_corners = smooth and bool(rng.random() < 0.3)
    if dtype == "uint8":
        align_corners = antialias = False
    channels_last = rank > 1 and bool(rng.random() < 0.35)
    while True:
        batch = _one_of(rng, (1, 2, 4, 8), (0.6, 0.2, 0.1, 0.1))
        channels = _one_of(rng, (3, _length(rng, 1, 256)), (0.3, 0.7))
        lengths = tuple(_length(rng, 4, 2000) for _ in range(rank))
        factor = _log_uniform(rng, 0.1, 8)
        factor = _one_of(rng, (factor, 2.0, 0.5), (0.8, 0.1, 0.1))
        apart = bool(rng.random() < 0.4)
        factors = [_log_uniform(rng, 0.1, 8) if apart else factor for _ in lengths]
        size = tuple(max(1, int(n * f)) for n, f in zip(lengths, factors, strict=True))
        planes = batch * channels
        if planes * (math.prod(lengths) + math.prod(size)) <= MOST_ELEMENTS:
            break
    return Resize(
        (batch, channels, *lengths), size, mode, dtype, align_corners, antialias, channels_last,
        backward,
    )  # fmt: skip


def _image(rng: np.random.Generator) -> Resize:
    """A single image, as OpenCV takes it; the axes have different factors more often than not."""
    mode = _one_of(rng, ("nearest", "bilinear", "bicubic"), (0.2, 0.5, 0.3))
    dtype = _one_of(rng, ("float32", "uint8", "float64"), (0.5, 0.3, 0.2))
    channels = int(_one_of(rng, (3, 1, 4), (0.6, 0.25, 0.15)))
    while True:
        lengths = (_length(rng, 60, 1200), _length(rng, 60, 1200))
        factor = _log_uniform(rng, 0.1, 4)
        apart = bool(rng.random() < 0.6)
        factors = [_log_uniform(rng, 0.1, 4) if apart else factor for _ in lengths]
        size = tuple(max(1, int(n * f)) for n, f in zip(lengths, factors, strict=True))
        if channels * (math.prod(lengths) + math.prod(size)) <= MOST_ELEMENTS:
            break
    shape = (1, channels, *lengths)
    return Resize(shape, size, mode, dtype, channels_last=bool(rng.random() < 0.5))


def _deform(rng: np.random.Generator, backward: bool) -> Deform:
    while True:
        groups, offset_groups = 1, 1
        channels, filters = _length(rng, 1, 256), _length(rng, 1, 256)
        kind = _one_of(rng, ("plain", "groups", "offset groups", "both", "depthwise"),
                       (0.5, 0.12, 0.18, 0.1, 0.1))  # fmt: skip
        if kind in ("groups", "both"):
            groups = int(_one_of(rng, (2, 3, 4, 8)))
            channels, filters = (max(1, n // groups) * groups for n in (channels, filters))
        if kind in ("offset groups", "both"):
            offset_groups = int(_one_of(rng, (2, 3, 4, 8, 16)))
            step = math.lcm(groups, offset_groups)
            channels = max(1, channels // step) * step
        if kind == "depthwise":
            groups = filters = channels
        kernel = _one_of(rng, ((3, 3), (1, 1), (5, 5), (3, 1), (2, 3), (7, 7)),
                         (0.6, 0.1, 0.1, 0.07, 0.08, 0.05))  # fmt: skip
        pairs = ((1, 1), (2, 2), (1, 2))
        stride = _one_of(rng, pairs, (0.75, 0.18, 0.07))
        dilation = _one_of(rng, ((1, 1), (2, 2), (3, 3), (1, 3)), (0.75, 0.12, 0.08, 0.05))
        reach = tuple(d * (k - 1) // 2 for d, k in zip(dilation, kernel, strict=True))
        padding = _one_of(rng, (reach, (0, 0)), (0.8, 0.2))
        found = Deform(
            (int(_one_of(rng, (1, 2, 4), (0.6, 0.25, 0.15))), channels,
             _length(rng, 4, 2000), _length(rng, 4, 2000)),
            filters, kernel, _one_of(rng, FLOATS, (0.5, 0.14, 0.18, 0.18)), stride, padding,
            dilation, groups, offset_groups, bool(rng.random() < 0.6),
            bool(rng.random() < 0.35), backward,
        )  # fmt: skip
        products = found.samples // groups * filters
        if min(found.size) > 0 and found.samples <= MOST_SAMPLES and products <= 4e8:
            # 16-bit types would round them to integers, where the gradient of a sample jumps.
            far = found.dtype in ("float32", "float64") and bool(rng.random() < 0.2)
            spread = _log_uniform(rng, 4, 200) if far else found.spread
            return replace(found, padding=(int(padding[0]), int(padding[1])), spread=spread)


def _my_add(rng: np.random.Generator) -> Add:
    dtype = _one_of(rng, (*FLOATS, "int32", "int64"), (0.4, 0.12, 0.12, 0.12, 0.12, 0.12))
    while True:
        rank = int(rng.integers(1, 6))
        shape = tuple(_length(rng, 1, 2000) for _ in range(rank))
        if math.prod(shape) <= MOST_ELEMENTS:
            break
    operands = []
    for _ in range(2):
        repeated = rng.random(rank) < _one_of(rng, (0.0, 0.4), (0.4, 0.6))
        operands.append(tuple(1 if r else n for n, r in zip(shape, repeated, strict=True)))
    shape = tuple(max(pair) for pair in zip(*operands, strict=True))
    plain = tuple(range(rank))
    orders = [
        tuple(int(axis) for axis in rng.permutation(rank)) if rng.random() < 0.2 else plain
        for _ in range(2)
    ]
    return Add(shape, operands[0], operands[1], orders[0], orders[1], dtype)
