"""Helpers for drawn calls: choices from a seed, tensors in any layout, and error limits."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from runtimes import assert_equal_bits, run_numpy, run_ort, to_numpy
from torch import Tensor

FLOATS = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32,
          "float64": torch.float64}  # fmt: skip
LAYOUTS = ("contiguous", "channels_last", "permuted", "gapped", "shifted", "expanded",
           "overlapping")  # fmt: skip
THREADS = (1, 2, 7)

# A call is named by its op and one number; everything about it follows from the two.
Options = dict[str, Any]


class WrongError(AssertionError):
    """A result differs from the reference."""


class Draw(random.Random):
    """Choices from a seed."""

    def chance(self, one_in: int) -> bool:
        return self.randrange(one_in) == 0

    def near(self, *limits: int) -> int:
        """One of the limits of an implementation, or a number next to it."""
        return max(1, self.choice(limits) + self.choice((-1, 0, 0, 1)))

    def layout(self) -> str:
        return self.choice(LAYOUTS)

    def dtype(self, kinds: Sequence[str] = ("float32", "float64", "float16", "bfloat16")) -> str:
        # Twice as often the two with kernels of their own; the others are widened to float32.
        return self.choice([*kinds, *kinds[:2]])

    def subset(self, names: Sequence[str]) -> list[str]:
        """Not empty; often all, often one alone."""
        if self.chance(3):
            return list(names)
        if self.chance(3):
            return [self.choice(names)]
        return [name for name in names if self.chance(2)] or [self.choice(names)]


def common_options(d: Draw) -> Options:
    """The options of a call of any op: its threads, whether it is repeated, its numbers."""
    return {
        "threads": d.choice(THREADS), "again": bool(d.chance(4)), "data": d.getrandbits(32)
    }  # fmt: skip


def common_classes(o: Options) -> list[str]:
    """The classes of a call of any op that the table of a campaign counts."""
    order = ("forward", "backward", "double backward")[o["order"]]
    return [f"dtype {o['dtype']}", order, f"threads {o['threads']}"]


class Data:
    """The numbers of a call and their layout in memory."""

    def __init__(self, seed: int) -> None:
        self.source = torch.Generator().manual_seed(seed)

    def normal(self, shape: Sequence[int]) -> Tensor:
        return torch.randn(tuple(shape), generator=self.source, dtype=torch.float64)

    def below(self, limit: int) -> int:
        return int(torch.randint(limit, (), generator=self.source))

    def lay(self, tensor: Tensor, layout: str) -> Tensor:
        """`tensor` in that layout. In a layout where elements are shared, its numbers differ."""
        rank = tensor.dim()
        if layout == "channels_last" and rank > 2:
            return tensor.movedim(1, -1).contiguous().movedim(-1, 1)
        if layout == "permuted":
            order = torch.randperm(rank, generator=self.source).tolist()
            back = [order.index(axis) for axis in range(rank)]
            return tensor.permute(order).contiguous().permute(back)
        if layout == "cropped":  # of something larger, which must not be read
            before = [self.below(4) for _ in range(rank)]
            lengths = [
                n + begin + self.below(4) for n, begin in zip(tensor.shape, before, strict=True)
            ]
            garbage = float("nan") if tensor.is_floating_point() else 77
            view = torch.full(lengths, garbage, dtype=tensor.dtype)
            view = view[tuple(slice(b, b + n) for n, b in zip(tensor.shape, before, strict=True))]
            return view.copy_(tensor)
        if layout == "gapped":  # what lies between must not be read
            steps = [1 + self.below(3) for _ in range(rank)]
            lengths = [n * step for n, step in zip(tensor.shape, steps, strict=True)]
            garbage = float("nan") if tensor.is_floating_point() else 77
            view = torch.full(lengths, garbage, dtype=tensor.dtype)
            view = view[tuple(slice(None, None, step) for step in steps)]
            return view.copy_(tensor)
        if layout == "shifted":  # by one element, so that no vector is aligned
            view = torch.empty(tensor.numel() + 1, dtype=tensor.dtype)[1:]
            return view.copy_(tensor.flatten()).view(tensor.shape)
        if layout == "expanded" and tensor.numel():
            repeated = [self.below(2) or rank == 1 for _ in range(rank)]
            first = tuple(slice(0, 1) if one else slice(None) for one in repeated)
            return tensor[first].clone().expand(tensor.shape)
        if layout == "overlapping" and tensor.numel():
            steps = [1 + self.below(2) for _ in range(rank)]
            count = 1 + sum((n - 1) * step for n, step in zip(tensor.shape, steps, strict=True))
            return tensor.flatten()[torch.arange(count) % tensor.numel()].as_strided(
                tensor.shape, steps
            )
        return tensor.contiguous()


def begin(o: Options) -> Data:
    """Sets torch's number of threads to that of the call, and returns its numbers."""
    torch.set_num_threads(o["threads"])
    return Data(o["data"])


def exact(tensor: Tensor) -> Tensor:
    """The same numbers in float64, contiguous and detached."""
    return torch.empty(tensor.shape, dtype=torch.float64).copy_(tensor.detach())


def accumulates(dtype: torch.dtype) -> float:
    """The rounding error of a sum: 16-bit types are summed in float32."""
    return torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32).eps


def compare(name: str, got: Tensor, wanted: Tensor, limit: float, equal_terms: int = 0) -> None:
    """Raises WrongError unless got is wanted, rounded to its dtype, within `limit`.

    A sum of n equal terms grows with n, not with its root, and so do the errors of its partial
    sums: at most half an eps of each, n / 4 of the sum together.
    """
    if got.shape != wanted.shape:
        raise WrongError(f"{name}: got shape {tuple(got.shape)}, expected {tuple(wanted.shape)}")
    got_exact, wanted = exact(got), wanted.detach()
    rounding = torch.finfo(got.dtype)
    finite = wanted[wanted.isfinite()].abs()
    largest = float(finite.max()) if finite.numel() and limit else 0.0
    limit += max(8, equal_terms / 2) * accumulates(got.dtype) * largest
    allowed = limit + rounding.tiny + rounding.eps * wanted.abs()
    wanted = torch.where(wanted.abs() > rounding.max, wanted * math.inf, wanted)
    same = (got_exact == wanted) | (got_exact.isnan() & wanted.isnan())
    bad = ~(same | ((got_exact - wanted).abs() <= allowed))
    if bad.any():
        place = tuple(bad.nonzero()[0].tolist())
        raise WrongError(
            f"{name}: {int(bad.sum())} of {bad.numel()} elements: at {place} got "
            f"{float(got_exact[place])!r}, expected {float(wanted[place])!r}, limit {limit:.1e}; "
            f"the last at {tuple(bad.nonzero()[-1].tolist())}"
        )


def equal_bits(name: str, got: Tensor | None, again: Tensor | None) -> None:
    if got is None or again is None:
        if got is not again:
            raise WrongError(f"{name}: a gradient once and none the other time")
        return
    same = (got == again) | (got.isnan() & again.isnan())
    if got.shape != again.shape or not bool(same.all()):
        raise WrongError(f"{name}: {int((~same).sum())} of {same.numel()} elements are others")


def other_threads(options: Options) -> int:
    return THREADS[(THREADS.index(options["threads"]) + 1) % len(THREADS)]


def runtimes_agree(
    op: str, tensors: list[Tensor | None], attributes: dict[str, Any], y: Tensor, data: Data
) -> None:
    """NumPy, with strides that torch does not support, and ONNX Runtime give the bits of `y`."""
    arrays = [None if item is None else to_numpy(item) for item in tensors]
    threads = THREADS[data.below(3)]
    reversed_ones = [None if item is None else backwards(item, data) for item in arrays]
    (result,) = run_numpy(op, reversed_ones, attributes, threads)
    assert_equal_bits(result, to_numpy(y), f"{op} in NumPy with {threads} threads")
    if data.below(4) == 0:  # a session takes longer than a call
        ordered = [None if item is None else np.array(item, order="C") for item in arrays]
        (result,) = run_ort(op, ordered, attributes, threads)
        assert_equal_bits(result, to_numpy(y), f"{op} in ONNX Runtime with {threads} threads")


def backwards(array: np.ndarray, data: Data) -> np.ndarray:
    """The same numbers with negative strides on some axes."""
    some = tuple(slice(None, None, -1 if data.below(2) else None) for _ in array.shape)
    return array[some].copy()[some]
