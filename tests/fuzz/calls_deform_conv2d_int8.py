"""Calls of deform_conv2d_int8, bit for bit against NumPy (reference_deform_conv2d_int8.py)."""

from __future__ import annotations

import calls_deform_conv2d
import numpy as np
import torch
from drawing import Data, Draw, Options, begin, equal_bits, other_threads, runtimes_agree
from reference_deform_conv2d_int8 import deform_conv2d_int8 as reference
from torch import Tensor

import myops

KINDS = {"uint8": torch.uint8, "int8": torch.int8}
NAMES = ("x", "x_scale", "x_zero_point", "weight", "weight_scale", "offset", "bias", "mask")


def draw(seed: int) -> Options:
    o = calls_deform_conv2d.draw(seed)  # the same shapes and positions
    d = Draw(seed + 1)
    kind = d.choice(tuple(KINDS))
    ends = torch.iinfo(KINDS[kind])
    zero = d.choice((None, ends.min, ends.max, d.randint(ends.min, ends.max)))
    return {
        **o, "dtype": "float32", "order": 0, "kind": kind, "zero": zero,
        "scales": d.choice(("one", "each")), "mask_limit": d.choice((1.0, 0.5, 1.7, 3.0)),
        "masks": d.choice(("normal", "not finite")),
        "layouts": {name: d.choice(("contiguous", d.layout())) for name in NAMES},
    }  # fmt: skip


def classes(o: Options) -> list[str]:
    kept = ("groups", "offset groups", "depthwise", "tiles", "taps", "version", "bias", "positions",
            "threads", "layout of x")  # fmt: skip
    counted = [item for item in calls_deform_conv2d.classes(o) if item.startswith(kept)]
    return [*counted, f"dtype {o['kind']}", f"scales {o['scales']}"]


def inputs(o: Options, data: Data) -> dict[str, Tensor | None]:
    floats = calls_deform_conv2d.inputs({**o, "layouts": dict.fromkeys(NAMES, "contiguous")}, data)
    kind = KINDS[o["kind"]]

    def integers(like: Tensor, dtype: torch.dtype) -> Tensor:
        ends = torch.iinfo(dtype)
        return torch.randint(ends.min, ends.max + 1, like.shape, generator=data.source, dtype=dtype)

    mask, outputs = floats["mask"], o["outputs"] if o["scales"] == "each" else 1
    if mask is not None and o["masks"] == "not finite":
        for number in (torch.nan, torch.inf, -torch.inf):
            some = torch.rand(mask.shape, generator=data.source) < 0.05
            mask = torch.where(some, number, mask)
    found = {
        "x": integers(floats["x"], kind),
        "x_scale": torch.tensor([0.02]),
        "x_zero_point": None if o["zero"] is None else torch.tensor([o["zero"]], dtype=kind),
        "weight": integers(floats["weight"], torch.int8),
        "weight_scale": data.normal([outputs]).to(torch.float32).abs() / 127,
        "offset": floats["offset"],
        "bias": floats["bias"],
        "mask": mask,
    }
    return {
        name: None if tensor is None else data.lay(tensor, o["layouts"][name])
        for name, tensor in found.items()
    }


def check(o: Options) -> None:
    data = begin(o)
    tensors = inputs(o, data)

    def call(x: Tensor, x_scale: Tensor, x_zero_point: Tensor | None, weight: Tensor,
             weight_scale: Tensor, offset: Tensor, bias: Tensor | None,
             mask: Tensor | None) -> Tensor:  # fmt: skip
        return myops.deform_conv2d_int8(
            x, x_scale, x_zero_point, offset, weight, weight_scale, bias, o["stride"],
            tuple(o["pads"]), o["dilation"], mask, o["mask_limit"],
        )  # fmt: skip

    got = call(**tensors)
    attributes = {"strides": o["stride"], "pads": o["pads"], "dilations": o["dilation"],
                  "group": o["group"], "offset_group": o["offset_group"],
                  "mask_limit": o["mask_limit"]}  # fmt: skip
    arrays = [None if t is None else np.ascontiguousarray(t.numpy()) for t in tensors.values()]
    with np.errstate(invalid="ignore", over="ignore"):  # of positions that are none
        wanted = reference(*arrays, **attributes)
    equal_bits("y", got, torch.from_numpy(np.ascontiguousarray(wanted)))
    if o["again"]:
        torch.set_num_threads(other_threads(o))
        order = {name: None if t is None else t.contiguous() for name, t in tensors.items()}
        equal_bits("y, with other threads and inputs in order", got, call(**order))
        runtimes_agree("deform_conv2d_int8", [*tensors.values()], attributes, got, data)
