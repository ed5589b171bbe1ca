"""Calls of deform_conv2d, its gradients and their gradients, against plain torch in float64."""

from __future__ import annotations

import math
from typing import Any

import torch
from cpu_choices import PAIRS
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
from reference_deform_conv2d import deform_conv2d as reference
from torch import Tensor

import myops

NAMES = ("x", "weight", "offset", "bias", "mask")
# Limits at which the kernel changes its strategy (csrc/ops/deform_conv2d): channels of a block (16,
# 32, 64),
# lanes (4 to 16), offset groups side by side (8), jobs (16), a product's outputs (128, 256).
GROUPS = (1, 1, 1, 2, 2, 3, 4, 5, 7, 8, 8, 9, 11, 15, 16, 17, 23, 31, 32, 33, 64, 65)
MANY = (100, 127, 128, 129, 250, 256, 257, 500, 999, 1000)
OUTPUTS = (4, 8, 16, 32, 64, 128, 256)
# Taps of a block are 16; 1 x 1 and windows that are not square.
KERNELS = ((1, 1), (1, 1), (3, 3), (3, 3), (3, 3), (1, 2), (2, 1), (2, 2), (3, 2), (2, 3), (1, 5),
           (5, 1), (4, 4), (3, 5), (5, 5), (1, 15), (1, 16), (17, 1), (7, 7), (6, 3))  # fmt: skip
# A tile has 512 (float64) or 1024 pixels at most; a row of up to 128 stays whole.
AREAS = ((1, 1), (1, 2), (2, 1), (1, 7), (3, 3), (6, 6), (5, 7), (8, 8), (9, 8), (13, 11),
         (16, 16), (17, 16), (1, 127), (1, 128), (1, 129), (129, 1), (2, 128), (2, 129), (23, 23),
         (23, 22), (32, 32), (31, 33), (32, 33), (8, 128), (9, 128), (1, 1025), (4, 257),
         (47, 43))  # fmt: skip


def draw(seed: int) -> Options:
    d = Draw(seed)
    # Elements of the column matrix, and products. Most calls are quick.
    budget = 1 << d.choice((12, 13, 14, 14, 14, 15, 15, 15, 16, 16, 16, 17, 18, d.choice((18, 20))))
    # An image beyond a window's memory, read anywhere: cells are copied one by one, or the image.
    wide = d.chance(12)
    while True:
        fields = d.choice(MANY if d.chance(12) else GROUPS)
        if wide:
            budget, fields = 1 << d.choice((16, 17, 18, 19)), d.choice((1, 1, 2, 3))
        kind = d.choice(
            ("dense", "dense", "grouped", "grouped", "depthwise", "depthwise", "copies")
        )
        if kind in ("depthwise", "copies"):  # C / group is 1
            channels = fields * d.choice((1, 1, 1, 2, 3, 4, 5, 8, 17, 33))
            group = channels
            outputs = group * (1 if kind == "depthwise" else d.choice((2, 3)))
        else:
            group = 1 if kind == "dense" else d.choice((*GROUPS, fields, fields))
            least = math.lcm(group, fields)
            # Above 128 with one offset group a gradient's task has several blocks.
            many = d.choice((d.near(8, 16, 32, 64), d.near(128, 144, 256)))
            channels = least * d.choice((1, 1, 1, 2, 3, 4, 7, many))
            each = d.near(*OUTPUTS) if d.chance(4) else d.randint(1, 6)
            outputs = group * each
        kernel = d.choice(KERNELS)
        taps = kernel[0] * kernel[1]
        batch = d.choice((0, 1, 1, 1, 2, 2, 2, 3, 3, 5, 9, 17))
        out = d.choice(AREAS) if d.chance(2) else (d.randint(1, 12), d.randint(1, 12))
        pixels = max(batch, 1) * out[0] * out[1] * taps
        if channels > 2100 or pixels * channels > budget:
            continue
        if pixels * outputs * (channels // group) > 40 * budget:
            continue
        if wide and pixels * channels < budget // 4:
            continue
        break
    # Pictures that are large beside what is read of them need windows for parts of the taps.
    stride = [d.choice((1, 1, 1, 2, 3)) for _ in range(2)]
    dilation = [d.choice((1, 1, 1, 2, 3)) for _ in range(2)]
    if d.chance(6):
        far = d.choice((5, 16, 64))
        extents = [(out[i] - 1) * far + kernel[i] * dilation[i] for i in range(2)]
        if max(batch, 1) * channels * math.prod(extents) < 1 << 20:
            stride = [far, far]
    if wide:  # 1 to 9 pixels for each entry of a tap
        stride = [max(1, round(math.sqrt(taps) * d.choice((1, 1.5, 2, 3)))) for _ in range(2)]
    pads, size = [0] * 4, [0, 0]
    for axis in (0, 1):
        extent = (kernel[axis] - 1) * dilation[axis] + 1
        whole = (out[axis] - 1) * stride[axis] + extent + d.randrange(stride[axis])
        for side in (axis, axis + 2):
            pads[side] = min(d.choice((0, 0, 1, 1, 2, 3)), (whole - 1) // 2)
        if d.chance(8):  # few pixels or none somewhere in much padding
            inner = min(d.choice((0, 0, 1, 2)), whole)
            pads[axis] = d.choice((0, whole - inner, d.randint(0, whole - inner)))
            pads[axis + 2] = whole - inner - pads[axis]
        size[axis] = whole - pads[axis] - pads[axis + 2]
    version = d.choice((1, 2))
    present = ["x", "weight", "offset", *(["bias"] if d.chance(2) else []),
               *(["mask"] if version == 2 else [])]  # fmt: skip
    order = d.choice((0, 1, 1, 1, 2, 2))
    wants = d.subset(present)
    return {
        "dtype": d.dtype(), "batch": batch, "channels": channels, "outputs": outputs,
        "kernel": list(kernel), "stride": stride, "dilation": dilation, "pads": pads,
        "size": size, "out": list(out), "group": group, "offset_group": fields,
        "bias": "bias" in present, "version": version, "order": order,
        "positions": "anywhere" if wide else d.choice(
            ("sixteenths", "sixteenths", "normal", "far", "not finite")),
        "layouts": {name: d.choice(("contiguous", d.layout())) for name in NAMES},
        "wants": wants,
        "grad_layout": d.layout(), "grad_wants": bool(d.chance(2)),
        "arrives": d.subset(wants), "arriving_layout": d.layout(),
        **common_options(d),
    }  # fmt: skip


def classes(o: Options) -> list[str]:
    """The classes that the table of a campaign counts."""

    def size(count: int) -> str:
        ends = ((1, "1"), (7, "2 to 7"), (99, "8 to 99"), (1 << 30, "100 and more"))
        return next(name for end, name in ends if count <= end)

    depthwise = o["group"] == o["channels"]
    tiles = o["batch"] * (1 + (o["out"][0] * o["out"][1] > 1024))
    taps = math.prod(o["kernel"])
    counted = [
        *common_classes(o),
        f"version {o['version']}",
        f"bias {'yes' if o['bias'] else 'no'}",
        f"groups {size(o['group'])}",
        f"offset groups {size(o['offset_group'])}",
        f"depthwise {'yes' if depthwise else 'no'}",
        f"tiles {'0' if not tiles else '1' if tiles == 1 else 'several'}",
        f"taps {'1' if taps == 1 else '2 to 16' if taps <= 16 else '17+'}",
        f"layout of x {o['layouts']['x']}",
        f"positions {o['positions']}",
    ]
    if o["order"]:
        counted.append(f"layout of the gradient {o['grad_layout']}")
        counted.append(f"wants {len(o['wants'])} of {3 + o['bias'] + o['version'] - 1}")
    return counted


def inputs(o: Options, data: Data) -> dict[str, Tensor | None]:
    taps, (height, width) = math.prod(o["kernel"]), o["out"]
    shapes = {
        "x": [o["batch"], o["channels"], *o["size"]],
        "weight": [o["outputs"], o["channels"] // o["group"], *o["kernel"]],
        "offset": [o["batch"], 2 * o["offset_group"] * taps, height, width],
        "bias": [o["outputs"]] if o["bias"] else None,
        "mask": [o["batch"], o["offset_group"] * taps, height, width]
        if o["version"] == 2
        else None,
    }
    dtype = FLOATS[o["dtype"]]
    tensors: dict[str, Tensor | None] = {}
    for name, shape in shapes.items():
        if shape is None:
            tensors[name] = None
            continue
        values = moves(o, data, shape) if name == "offset" else data.normal(shape)
        tensors[name] = data.lay(values.to(dtype), o["layouts"][name])
    return tensors


def moves(o: Options, data: Data, shape: list[int]) -> Tensor:
    values = data.normal(shape) * 2
    if o["positions"] != "normal":  # whole ones too, and the same in every dtype
        values = (values * 16).round() / 16
    elif o["dtype"] in ("float16", "bfloat16") or o["order"]:
        # Gradients jump where a position is a whole number: keep away from there by more than
        # positions are rounded, 3/8 in sixteenths where the dtype has few digits.
        fine = o["dtype"] in ("float32", "float64")
        values = torch.where((values - values.round()).abs() < 0.02, values + 0.05, values)
        values = values if fine else values.round() + 0.375
    if o["positions"] == "far":
        far = torch.rand(shape, generator=data.source) < 0.2
        values = torch.where(far, values * 64, values)
    if o["positions"] == "anywhere":
        values = (values * max(o["size"]) / 4).round() + 0.375
    if o["positions"] == "not finite":
        for number in (math.nan, math.inf, -math.inf):
            some = torch.rand(shape, generator=data.source) < 0.05
            values = torch.where(some, torch.tensor(number, dtype=torch.float64), values)
    return values


def run(o: Options, tensors: dict[str, Tensor | None], grad: Tensor | None,
        arriving: dict[str, Tensor], call: Any) -> dict[str, Tensor]:  # fmt: skip
    """The result, the gradients that are wanted, and theirs; by name."""
    leaves = {name: None if t is None else t.detach() for name, t in tensors.items()}
    if o["order"]:
        for name in o["wants"]:
            leaves[name].requires_grad_()
    y = call(**leaves)
    results = {"y": y}
    if not o["order"]:
        return results
    twice = o["order"] == 2
    grad = grad.detach().requires_grad_(twice and o["grad_wants"])
    wanted = [leaves[name] for name in o["wants"]]
    first = torch.autograd.grad(y, wanted, grad, create_graph=twice)
    results |= {f"gradient of {name}": one for name, one in zip(o["wants"], first, strict=True)}
    if not twice:
        return results
    pairs = [(one, arriving[name]) for name, one in zip(o["wants"], first, strict=True)
             if name in o["arrives"] and one.requires_grad]  # fmt: skip
    if not pairs:
        return results
    names = [*o["wants"], *(["grad"] if o["grad_wants"] else [])]
    behind = [*wanted, *([grad] if o["grad_wants"] else [])]
    second = torch.autograd.grad(
        [one for one, _ in pairs], behind, [one for _, one in pairs], allow_unused=True
    )
    for name, leaf, one in zip(names, behind, second, strict=True):
        results[f"second gradient of {name}"] = torch.zeros_like(leaf) if one is None else one
    return results


def terms_of(o: Options, name: str) -> int:
    """The number of products that an element of a result adds."""
    taps, area = math.prod(o["kernel"]), o["batch"] * math.prod(o["out"])
    depth, outputs = o["channels"] // o["group"], o["outputs"] // o["group"]
    field = o["channels"] // o["offset_group"]
    sums = {"y": depth * taps, "weight": area, "x": outputs * taps * 4, "offset": outputs * field,
            "mask": outputs * field, "bias": area, "grad": 4 * depth * taps}  # fmt: skip
    terms = sums[name.split()[-1]]
    if name.startswith("second"):
        terms = 4 * (terms + depth * taps)
    return terms


def limits(o: Options, name: str) -> float:
    """The allowed error of sums of numbers of about 1: rounding of sums and of positions."""
    terms = terms_of(o, name)
    summed = 0.0
    if name == "second gradient of grad" and "bias" in o["arrives"]:  # torch adds one to the other
        summed = 16 * torch.finfo(FLOATS[o["dtype"]]).eps * math.sqrt(terms + 16)
    if name == "y" and o["dtype"] == "bfloat16" and PAIRS:  # samples are rounded to bfloat16
        summed = 4 * 2.0**-8 * math.sqrt(terms + 16)
    rounded = 64 + 8 * max(o["size"]) * (o["positions"] == "normal")
    return summed + accumulates(FLOATS[o["dtype"]]) * rounded * math.sqrt(terms + 16) * 2


def check(o: Options) -> None:
    data, dtype = begin(o), FLOATS[o["dtype"]]
    tensors = inputs(o, data)
    shape = [o["batch"], o["outputs"], *o["out"]]
    grad = data.lay(data.normal(shape).to(dtype), o["grad_layout"])
    arriving = {
        name: data.lay(data.normal(tensors[name].shape).to(dtype), o["arriving_layout"])
        for name in o["wants"]
    }
    pads = tuple(o["pads"])

    def ours(x: Tensor, weight: Tensor, offset: Tensor, bias: Any, mask: Any) -> Tensor:
        return myops.deform_conv2d(x, offset, weight, bias, o["stride"], pads, o["dilation"], mask)

    def theirs(x: Tensor, weight: Tensor, offset: Tensor, bias: Any, mask: Any) -> Tensor:
        return reference(x, weight, offset, bias, mask, tuple(o["stride"]), pads,
                         tuple(o["dilation"]), o["group"], o["offset_group"])  # fmt: skip

    got = run(o, tensors, grad, arriving, ours)
    torch.set_num_threads(1)
    wide = {name: None if t is None else exact(t) for name, t in tensors.items()}
    wanted = run(o, wide, exact(grad), {n: exact(t) for n, t in arriving.items()}, theirs)
    layouts = [o["grad_layout"], o["arriving_layout"], *o["layouts"].values()]
    for name, result in wanted.items():
        equal = terms_of(o, name) if "expanded" in layouts else 0
        compare(name, got[name], result, limits(o, name), equal)
    if o["again"]:  # other threads, other layouts, other runtimes: the same bits
        torch.set_num_threads(other_threads(o))
        order = {name: None if t is None else t.contiguous() for name, t in tensors.items()}
        flat = {name: t.contiguous() for name, t in arriving.items()}
        again = run(o, order, grad.contiguous(), flat, ours)
        for name, result in again.items():
            if name != "gradient of bias":  # torch's own sum
                equal_bits(f"{name}, with other threads and inputs in order", got[name], result)
        given = [tensors[name] for name in ("x", "weight", "offset", "bias", "mask")]
        attributes = {"strides": o["stride"], "pads": o["pads"], "dilations": o["dilation"],
                      "group": o["group"], "offset_group": o["offset_group"]}  # fmt: skip
        runtimes_agree("deform_conv2d", given, attributes, got["y"], data)
