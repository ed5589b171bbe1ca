"""Calls of resize and its gradients against ONNX's text in float64 (reference_resize.py)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import reference_resize
import torch
from drawing import (
    FLOATS,
    Data,
    Draw,
    Options,
    accumulates,
    begin,
    common_classes,
    common_options,
    compare,
    equal_bits,
    exact,
    other_threads,
    runtimes_agree,
)
from torch import Tensor

import myops

MODES = ("nearest", "linear", "linear", "cubic", "cubic", "area")
COORDINATES = ("half_pixel", "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
               "align_corners", "asymmetric", "tf_crop_and_resize")  # fmt: skip
ROUNDING = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
POLICIES = ("stretch", "stretch", "not_larger", "not_smaller")
FACTORS = (0.25, 1 / 3, 0.5, 0.5, 2 / 3, 0.75, 1.0, 1.5, 2.0, 2.0, 3.0, 4.0, 1.25, 7 / 3)
# Lanes and vectors; blocks of 256; rows of 1920 and 7680 elements (csrc/ops/resize).
VECTORS = (4, 8, 16, 32, 64, 128)
BLOCKS = (255, 256, 257, 384, 511, 512, 513, 1024, 1919, 1920, 1921, 2048)
BUDGETS = (1 << 9, 1 << 11, 1 << 12, 1 << 12, 1 << 14, 1 << 16, 1 << 18)


def shape_within(d: Draw, rank: int, budget: int) -> list[int]:
    """Mostly short axes, one of the implementation's limits, often an axis of 1."""
    while True:
        shape = [d.choice((1, 2, 3, d.randint(1, 13), d.randint(1, 13))) for _ in range(rank)]
        if d.chance(2):
            shape[d.choice((-1, -1, d.randrange(rank)))] = d.near(*VECTORS)
        if d.chance(6):
            shape[d.choice((-1, d.randrange(rank)))] = d.choice((*BLOCKS, 7679, 7680, 7681))
        if math.prod(shape) <= budget:
            return shape


def factor(d: Draw, length: int) -> float:
    chosen = d.choice(FACTORS) if d.chance(2) else d.uniform(0.15, 4)
    if d.chance(12):  # to one element, or few of many
        chosen = d.choice((0.0, d.uniform(0, 0.15)))
    return max(chosen, 1.02 / length)


def draw(seed: int) -> Options:
    d = Draw(seed)
    budget = d.choice(BUDGETS)
    mode = d.choice(MODES)
    kind = d.choice(COORDINATES) if mode != "area" else "half_pixel"
    while True:
        shape = shape_within(d, d.choice((1, 2, 3, 4, 4, 4, 5)), budget)
        rank = len(shape)
        count = d.choice((1, 2, 2, rank, d.randint(1, rank)))
        # The last axes, as pictures have them, or any, in any order.
        axes = list(range(rank - min(count, rank), rank))
        if d.chance(2):
            axes = d.sample(range(rank), min(count, rank))
        crops = kind == "tf_crop_and_resize"
        roi = [d.choice((0.0, 0.0, d.uniform(-0.3, 0.4))) for _ in axes]
        roi += [d.choice((1.0, 1.0, d.uniform(0.6, 1.3))) for _ in axes]
        roi = [float(np.float32(bound)) for bound in roi]
        scales = [float(np.float32(factor(d, shape[axis]))) for axis in axes]
        sizes = [max(1, int(shape[axis] * scale)) for axis, scale in zip(axes, scales, strict=True)]
        policy = d.choice(POLICIES) if not crops else "stretch"
        by = d.choice(("scales", "sizes"))
        out = list(shape)
        made, _ = reference_resize.lengths(
            shape, axes, scales if by == "scales" else None, sizes, policy
        )
        for axis, length in zip(axes, made, strict=True):
            out[axis] = length
        if min(out) >= 1 and math.prod(out) <= 4 * budget and max(out) * max(shape) <= 1 << 25:
            break
    dtype = d.dtype((*FLOATS, "uint8"))
    if d.chance(12):
        shape[d.randrange(rank)] = 0
    sizes = [length and size for length, size in zip((shape[a] for a in axes), sizes, strict=True)]
    return {
        "dtype": dtype, "shape": shape, "by": by, "scales": scales, "sizes": sizes, "roi": roi,
        "attributes": {
            "mode": mode, "coordinate_transformation_mode": kind,
            "nearest_mode": d.choice(ROUNDING) if mode == "nearest" else "round_prefer_floor",
            "cubic_coeff_a": d.choice((-0.5, -0.75, float(np.float32(-0.6)))),
            "exclude_outside": mode == "cubic" and bool(d.chance(2)),
            "extrapolation_value": d.choice((0.0, 7.5)),
            "antialias": mode not in ("nearest", "area") and bool(d.chance(2)),
            "axes": [axis - rank * d.chance(4) for axis in axes],
            "keep_aspect_ratio_policy": policy if by == "sizes" else "stretch",
        },
        "lists": d.choice(("numbers", "tensors", "float64 tensors")),
        "layout": d.layout(), "grad_layout": d.layout(),
        "order": 0 if dtype == "uint8" else d.choice((0, 1, 2)),
        **common_options(d),
    }  # fmt: skip


def classes(o: Options) -> list[str]:
    a = o["attributes"]
    counted = [
        *common_classes(o),
        f"mode {a['mode']}",
        f"coordinates {a['coordinate_transformation_mode']}",
        f"{o['by']} as {o['lists']}",
        f"rank {len(o['shape'])}",
        f"axes {len(a['axes'])}",
        f"layout {o['layout']}",
    ]
    if a["mode"] == "nearest":
        counted.append(f"rounding {a['nearest_mode']}")
    else:
        counted.append(f"antialias {'yes' if a['antialias'] else 'no'}")
    if a["mode"] == "cubic":
        counted.append(f"exclude_outside {'yes' if a['exclude_outside'] else 'no'}")
    if o["by"] == "sizes":
        counted.append(f"policy {a['keep_aspect_ratio_policy']}")
    return counted


def given_list(numbers: list[float] | None, kind: str, dtype: torch.dtype) -> Any:
    if numbers is None or kind == "numbers":
        return numbers
    wide = kind == "float64 tensors" and dtype.is_floating_point
    return torch.tensor(numbers, dtype=torch.float64 if wide else dtype)


def values(data: Data, shape: list[int], dtype: str) -> Tensor:
    if dtype == "uint8":
        return torch.randint(256, tuple(shape), generator=data.source, dtype=torch.uint8)
    return data.normal(shape).to(FLOATS[dtype])


def check(o: Options) -> None:
    data = begin(o)
    x = data.lay(values(data, o["shape"], o["dtype"]), o["layout"])
    a, rank = o["attributes"], x.dim()
    axes = [axis % rank for axis in a["axes"]]
    crops = a["coordinate_transformation_mode"] == "tf_crop_and_resize"
    by_scales = o["by"] == "scales"
    arguments = {
        "scales": given_list(o["scales"] if by_scales else None, o["lists"], torch.float32),
        "sizes": given_list(None if by_scales else o["sizes"], o["lists"], torch.int64),
        "roi": given_list(o["roi"] if crops else None, o["lists"], torch.float32),
        **a,
    }
    made, scales = reference_resize.lengths(
        o["shape"], axes, o["scales"] if by_scales else None, o["sizes"],
        a["keep_aspect_ratio_policy"],
    )  # fmt: skip
    eps = accumulates(x.dtype) if x.is_floating_point() else torch.finfo(torch.float32).eps
    matrices = [
        reference_resize.axis_matrix(
            a, o["shape"][axis], made[i], scales[i], (o["roi"][i], o["roi"][i + len(axes)]), eps
        )
        for i, axis in enumerate(axes)
    ]
    wanted = torch.from_numpy(
        reference_resize.forward(exact(x).numpy(), axes, matrices, a["extrapolation_value"])
    )
    doubtful = torch.from_numpy(
        reference_resize.mask_of([matrix.doubtful for matrix in matrices], axes, rank)
    ).expand(wanted.shape)
    grad = None
    if o["order"]:
        grad = values(data, list(wanted.shape), o["dtype"])
        grad = data.lay(torch.where(doubtful, torch.zeros_like(grad), grad), o["grad_layout"])
        grad = grad if not doubtful.any() else torch.where(doubtful, torch.zeros_like(grad), grad)

    def run(x: Tensor, grad: Tensor | None) -> dict[str, Tensor]:
        leaf = x.detach().requires_grad_(o["order"] > 0)
        results = {"y": myops.resize(leaf, **arguments)}
        if grad is None:
            return results
        grad = grad.detach().requires_grad_(o["order"] == 2)
        (first,) = torch.autograd.grad(results["y"], leaf, grad, create_graph=o["order"] == 2)
        results["gradient"] = first
        if o["order"] == 2:  # linear: the gradient of the gradient is the resize of what arrives
            (results["second gradient"],) = torch.autograd.grad(first, grad, x.detach())
        return results

    got = run(x, grad)
    longest = max([*o["shape"], *made])
    largest = 255.0 if o["dtype"] == "uint8" else 5.0
    limit = eps * (32 + 16 * longest) * largest
    certain = torch.where(doubtful, exact(got["y"]), wanted)
    check_values("y", got["y"], certain, limit)
    if grad is not None:
        # Sums over the outputs that an input has a part in.
        growth = math.prod(
            max(1.0, n / max(m, 1)) for n, m in zip(wanted.shape, o["shape"], strict=True)
        )
        transposed = torch.from_numpy(
            reference_resize.backward(exact(grad).numpy(), axes, matrices)
        )
        compare("gradient", got["gradient"], transposed, limit * growth)
    if o["order"] == 2:
        # What lies outside does not depend on x.
        outside = torch.from_numpy(
            reference_resize.mask_of([matrix.outside for matrix in matrices], axes, rank)
        )
        inner = torch.where(outside, torch.zeros((), dtype=torch.float64), wanted)
        second = got["second gradient"]
        if a["extrapolation_value"] == 0:
            compare("second gradient", second, torch.where(doubtful, exact(second), inner), limit)
    if o["again"]:
        torch.set_num_threads(other_threads(o))
        again = run(x.contiguous(), None if grad is None else grad.contiguous())
        for name, result in again.items():
            equal_bits(f"{name}, with other threads and inputs in order", got[name], result)
        lists = [None if item is None else torch.tensor(item, dtype=kind) for item, kind in (
            (o["roi"] if crops else None, torch.float32),
            (o["scales"] if by_scales else None, torch.float32),
            (None if by_scales else o["sizes"], torch.int64))]  # fmt: skip
        runtimes_agree("resize", [x, *lists], a, got["y"], data)


def check_values(name: str, got: Tensor, wanted: Tensor, limit: float) -> None:
    if got.dtype == torch.uint8:  # rounded to nearest: half a level, and what positions are off
        if got.shape != wanted.shape:
            compare(name, got.double(), wanted, 0)
        compare(name, got.double(), wanted.clamp(0, 255), 0.5 + limit)
        return
    compare(name, got, wanted, limit)
