"""Calls of interpolate and its gradients against torch's own, in float64."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from calls_resize import BUDGETS, check_values, factor, shape_within, values
from drawing import (
    FLOATS,
    Draw,
    Options,
    accumulates,
    begin,
    common_classes,
    common_options,
    equal_bits,
    exact,
    other_threads,
)
from torch import Tensor

import myops

MODES = {3: ("nearest", "nearest-exact", "linear", "area"),
         4: ("nearest", "nearest-exact", "bilinear", "bilinear", "bicubic", "bicubic", "area"),
         5: ("nearest", "nearest-exact", "trilinear", "area")}  # fmt: skip


def draw(seed: int) -> Options:
    d = Draw(seed)
    budget = d.choice(BUDGETS)
    rank = d.choice((3, 4, 4, 4, 4, 5))
    mode = d.choice(MODES[rank])
    smooth = mode not in ("nearest", "nearest-exact", "area")
    while True:
        shape = shape_within(d, rank, budget)
        # One factor for all axes, one for each, or lengths.
        scales = [factor(d, length) for length in shape[2:]]
        if d.chance(2):
            scales = [max(scales)] * len(scales)
        elif d.chance(8):
            scales[-1] = 1.02 / shape[-1]
        by = d.choice(("size", "scale_factor"))
        form = d.choice(("list", "tensor", "one", "one tensor"))
        if form in ("one", "one tensor"):
            scales = [scales[0]] * len(scales)
        if form in ("tensor", "one tensor") and d.chance(2):
            scales = [float(torch.tensor(scale, dtype=torch.float32)) for scale in scales]
            kind = "float32"
        else:
            kind = "float64"
        sizes = [math.floor(n * s) for n, s in zip(shape[2:], scales, strict=True)]
        if by == "size" and form in ("one", "one tensor"):
            sizes = [max(1, sizes[0])] * len(sizes)
        if min(sizes) >= 1 and math.prod(shape[:2]) * math.prod(sizes) <= 4 * budget:
            break
    dtype = d.dtype((*FLOATS, "uint8"))
    if d.chance(25):
        shape[0] = 0
    return {
        "dtype": dtype, "shape": shape, "mode": mode, "by": by, "form": form, "kind": kind,
        "sizes": sizes, "scales": scales,
        "align_corners": d.choice((None, False, True, True)) if smooth else None,
        "antialias": mode in ("bilinear", "bicubic") and bool(d.chance(2)),
        "recompute_scale_factor": (by == "scale_factor" and d.choice((None, False, True))) or None,
        "layout": d.layout(), "grad_layout": d.layout(), "arriving_layout": d.layout(),
        "order": 0 if dtype == "uint8" else d.choice((0, 1, 2)),
        **common_options(d),
    }  # fmt: skip


def classes(o: Options) -> list[str]:
    return [
        *common_classes(o), f"mode {o['mode']}", f"rank {len(o['shape'])}",
        f"{o['by']} as {o['form']}", f"align_corners {o['align_corners']}",
        f"antialias {'yes' if o['antialias'] else 'no'}",
        f"recompute_scale_factor {o['recompute_scale_factor']}", f"layout {o['layout']}",
        f"layout of the gradient {o['grad_layout'] if o['order'] else 'none'}",
    ]  # fmt: skip


def argument(numbers: list[Any], form: str, dtype: torch.dtype) -> Any:
    if form == "one":
        return numbers[0]
    if form == "list":
        return numbers
    return torch.tensor(numbers[0] if form == "one tensor" else numbers, dtype=dtype)


def check(o: Options) -> None:
    data = begin(o)
    x = data.lay(values(data, o["shape"], o["dtype"]), o["layout"])
    options = {name: o[name] for name in ("mode", "align_corners", "recompute_scale_factor",
                                          "antialias")}  # fmt: skip
    ours, theirs = dict(options), dict(options)
    if o["by"] == "size":
        ours["size"] = argument(o["sizes"], o["form"], torch.int64)
        theirs["size"] = o["sizes"]
    else:
        ours["scale_factor"] = argument(o["scales"], o["form"], FLOATS[o["kind"]])
        theirs["scale_factor"] = o["scales"]

    shape = [*o["shape"][:2], *o["sizes"]]
    grad = arriving = None
    if o["order"]:
        grad = data.lay(values(data, shape, o["dtype"]), o["grad_layout"])
        arriving = data.lay(values(data, o["shape"], o["dtype"]), o["arriving_layout"])

    def run(
        x: Tensor, grad: Tensor | None, arriving: Tensor | None, call: Any
    ) -> dict[str, Tensor]:
        leaf = x.detach().requires_grad_(o["order"] > 0)
        results = {"y": call(leaf)}
        if grad is None:
            return results
        twice = o["order"] == 2
        grad = grad.detach().requires_grad_(twice)
        (results["gradient"],) = torch.autograd.grad(results["y"], leaf, grad, create_graph=twice)
        if twice:
            (results["second gradient"],) = torch.autograd.grad(results["gradient"], grad, arriving)
        return results

    def call(x: Tensor) -> Tensor:
        return myops.interpolate(x, **ours)

    got = run(x, grad, arriving, call)
    torch.set_num_threads(1)
    if o["mode"].startswith("nearest"):
        wanted = nearest(x, grad, arriving if o["order"] == 2 else None, theirs)
        limits = dict.fromkeys(wanted, 0.0)
        # A sum has an order: ours goes by axes, the reference's by terms.
        counts = [-(-m // n) for m, n in zip(o["sizes"], o["shape"][2:], strict=True) if n > 0]
        terms = math.prod(counts)
        limits["gradient"] = 5 * terms**2 * torch.finfo(torch.float64).eps
        if x.is_floating_point():
            limits["gradient"] += 5 * max(64, terms * sum(counts)) * accumulates(x.dtype)
    else:
        wanted = smooth(exact(x), None if grad is None else exact(grad), o, theirs)
        if o["order"] == 2:  # linear: what arrives is interpolated
            wanted["second gradient"] = torchs(exact(arriving), theirs)
        limits = dict.fromkeys(wanted, limit(o, x))
        limits["gradient"] = limit(o, x) * math.prod(
            max(1.0, m / n) for m, n in zip(o["sizes"], o["shape"][2:], strict=True)
        )
        if x.dtype == torch.float64 and o["mode"] != "area" and not o["antialias"]:
            elsewhere = snapped(o)
            for name in ("y", "second gradient"):
                if name in wanted:
                    wanted[name] = torch.where(elsewhere, exact(got[name]), wanted[name])
            if elsewhere.any():  # each input may get something from one of them
                limits["gradient"] *= torch.finfo(torch.float32).eps / torch.finfo(x.dtype).eps
    for name, result in wanted.items():
        check_values(name, got[name], result, limits[name])
    if o["again"]:
        torch.set_num_threads(other_threads(o))
        order = [None if t is None else t.contiguous() for t in (grad, arriving)]
        for name, result in run(x.contiguous(), *order, call).items():
            equal_bits(f"{name}, with other threads and inputs in order", got[name], result)


def torchs(x: Tensor, options: dict[str, Any]) -> Tensor:
    if not options["antialias"]:
        return F.interpolate(x, **options)
    # torch 2.13 takes every row from the first where a result in order has one column; right are
    # its pixels with several channels side by side.
    twice = torch.cat([x, x], 1).contiguous(memory_format=torch.channels_last)
    return F.interpolate(twice, **options)[:, : x.shape[1]]


def snapped(o: Options) -> Tensor:
    """Which outputs torch makes from other elements: it rounds positions down in float32, of
    float64 data too, so that 5542.9998 becomes 5543. Its result is wrong there by up to 4e-4; a
    test in tests/ops/test_interpolate.py shows that ours is right."""
    found = torch.zeros((), dtype=torch.bool)
    for length, size, scale in zip(o["shape"][2:], o["sizes"], o["scales"], strict=True):
        places = torch.arange(size, dtype=torch.float64)
        if o["align_corners"]:
            places *= (length - 1) / max(size - 1, 1)
        else:
            given = o["by"] == "scale_factor" and not o["recompute_scale_factor"]
            places = (places + 0.5) * (1 / scale if given else length / max(size, 1)) - 0.5
        found = found[..., None] | (places.float().floor() != places.floor())
    return found


def smooth(
    x: Tensor, grad: Tensor | None, o: Options, options: dict[str, Any]
) -> dict[str, Tensor]:
    x.requires_grad_(grad is not None)
    y = torchs(x, options)
    if grad is None:
        return {"y": y}
    stays = any(n == m for n, m in zip(o["sizes"], o["shape"][2:], strict=True))
    if stays and o["mode"] in ("bilinear", "bicubic"):
        # Where a length stays and the factor is not 1, one of torch's forward and backward
        # resamples and the other copies; the transpose of its forward is right.
        height, width = x.shape[2:]
        if height * width > 256 or not x.numel():
            return {"y": y}
        basis = torch.eye(height * width, dtype=torch.float64).reshape(-1, 1, height, width)
        matrix = torchs(basis, options).flatten(1)
        return {"y": y, "gradient": (grad.flatten(2) @ matrix.T).reshape(x.shape)}
    (gradient,) = torch.autograd.grad(y, x, grad)
    return {"y": y, "gradient": gradient}


def limit(o: Options, x: Tensor) -> float:
    """Positions are computed in float32 for data of up to 32 bits, in torch too."""
    eps = accumulates(x.dtype) if x.is_floating_point() else torch.finfo(torch.float32).eps
    longest = max([*o["shape"][2:], *o["sizes"]])
    return eps * (32 + 16 * longest) * (255.0 if o["dtype"] == "uint8" else 5.0)


def nearest(
    x: Tensor, grad: Tensor | None, arriving: Tensor | None, options: dict[str, Any]
) -> dict[str, Tensor]:
    """The elements that torch picks from a tensor of this dtype in order, and the transpose."""
    flat = exact(x).flatten(2)
    places = torch.arange(flat.shape[2]).reshape(x.shape[2:]).to(torch.float64)
    if x.dtype != torch.float64:  # then positions are float32
        places = places.to(torch.float32)
    index = F.interpolate(places.expand(max(x.shape[0], 1), *x.shape[1:]).contiguous(), **options)
    size = index.shape[2:]
    index = index.to(torch.int64)[: x.shape[0]].flatten(2)
    results = {"y": flat.gather(2, index).reshape(*x.shape[:2], *size)}
    if grad is not None:
        back = torch.zeros_like(flat).scatter_add_(2, index, exact(grad).flatten(2))
        results["gradient"] = back.reshape(x.shape)
    if arriving is not None:
        second = exact(arriving).flatten(2).gather(2, index)
        results["second gradient"] = second.reshape(*x.shape[:2], *size)
    return results
