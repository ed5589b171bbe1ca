"""Large calls without a reference: the same bits from any memory, on any threads, alone or not.

Without a reference a call takes milliseconds, so images can be larger than the windows, tables and
copies of the kernels, with samples far from each other. Three runs of a call are compared: with
tensors whose channels and columns mostly have gaps, which are filled with NaN; with others in order
and other threads, asking for all gradients; and of one image, or of some channels, for which other
kernels run.
"""

from __future__ import annotations

import math

import calls_deform_conv2d
import torch
from drawing import (
    FLOATS,
    Data,
    Draw,
    Options,
    begin,
    common_classes,
    common_options,
    compare,
    equal_bits,
    exact,
    other_threads,
)
from torch import Tensor

import myops

NAMES = (*calls_deform_conv2d.NAMES, "grad", "arriving")
KERNELS = ((3, 3), (3, 3), (3, 3), (1, 1), (5, 5), (3, 1), (2, 3), (7, 7))
SPREADS = (0.5, 5, 40, 400)  # of offsets, in pixels
MODES = {3: ("nearest", "nearest-exact", "linear", "linear", "area"),
         4: ("nearest", "nearest-exact", "bilinear", "bilinear", "bicubic", "bicubic", "area"),
         5: ("nearest", "trilinear", "area")}  # fmt: skip
LAYOUTS = ("permuted", "permuted", "gapped", "gapped", "cropped", "channels_last", "shifted",
           "expanded")  # fmt: skip


def draw(seed: int) -> Options:
    d = Draw(seed)
    huge = d.chance(150)
    made = d.choice((huge_deform, huge_resized) if huge else (deform, deform, resized))(d)
    kinds = ("permuted", "cropped", "channels_last") if huge else LAYOUTS  # no wide gaps
    layouts = {name: d.choice(kinds) for name in NAMES}
    if made["op"] == "interpolate" and d.chance(3):  # then the result is channels_last too
        layouts |= dict.fromkeys(("x", "grad"), "channels_last")
    return {
        **made, "layouts": layouts, **common_options(d),
        "grad_wants": bool(d.chance(2)), "all_wants": bool(d.chance(2)),
    }  # fmt: skip


def length(d: Draw, low: int, high: int) -> int:
    """Uniform in the logarithm."""
    return round(math.exp(d.uniform(math.log(low), math.log(high))))


def deform(d: Draw) -> Options:
    samples = 1 << d.choice((14, 15, 16, 17, 18, 19))
    while True:
        fields, group = d.choice((1, 1, 1, 2, 3, 4, 8)), d.choice((1, 1, 1, 2, 3, 4, 8))
        step = math.lcm(fields, group)
        channels = step * max(1, length(d, 1, 100) // step)
        outputs = group * max(1, length(d, 1, d.choice((64, 64, 64, 1500))) // group)
        if d.chance(5):
            group = outputs = channels
        kernel, batch = d.choice(KERNELS), d.choice((1, 1, 1, 2, 3, 4))
        stride = [d.choice((1, 1, 1, 2, 4)) for _ in range(2)]
        dilation = [d.choice((1, 1, 1, 2, 3)) for _ in range(2)]
        size = [length(d, 4, 1500) for _ in range(2)]
        reach = [dilation[axis] * (kernel[axis] - 1) for axis in (0, 1)]
        pads = [d.randint(0, reach[axis]) for axis in (0, 1, 0, 1)]
        out = [(size[axis] + pads[axis] + pads[axis + 2] - reach[axis] - 1) // stride[axis] + 1
               for axis in (0, 1)]  # fmt: skip
        count = batch * channels * math.prod(out) * math.prod(kernel)
        if (
            min(out) > 0
            and samples // 4 <= count <= samples
            and count // group * outputs <= 1 << 24
            and batch * channels * math.prod(size) <= 1 << 20
        ):
            break
    return {
        "dtype": d.dtype(), "order": d.choice((0, 1, 1, 1, 2, 2)), "batch": batch,
        "channels": channels, "outputs": outputs, "kernel": list(kernel), "stride": stride,
        "dilation": dilation, "pads": pads, "size": size, "out": out, "group": group,
        "offset_group": fields, **common_deform(d),
    }  # fmt: skip


def huge_deform(d: Draw) -> Options:
    """Sums of the gradient of x in float32 take more than 32 MiB: 16-bit types make it in bands."""
    channels, width = d.randint(4, 20), length(d, 100, 8000)
    size = [(1 << 23) // (channels * width) + 2, width]
    stride = [max(1, n // 30) for n in size]
    out = [(n - 3) // step + 1 for n, step in zip(size, stride, strict=True)]
    return {
        "dtype": d.choice(("float16", "bfloat16")), "order": 1, "batch": 1, "channels": channels,
        "outputs": d.randint(1, 8), "kernel": [3, 3], "stride": stride, "dilation": [1, 1],
        "pads": [0] * 4, "size": size, "out": out, "group": 1, "offset_group": 1,
        **common_deform(d),
    }  # fmt: skip


def common_deform(d: Draw) -> Options:
    version = d.choice((1, 2))
    return {
        "op": "deform_conv2d", "bias": bool(d.chance(2)), "version": version,
        "spread": d.choice(SPREADS), "positions": "sixteenths", "arrives": [],
        "wants": d.subset(["x", "weight", "offset", *["mask"] * (version == 2)]),
    }  # fmt: skip


def huge_resized(d: Draw) -> Options:
    """More than 10 MiB."""
    return {**resized(d, 1 << 23, ("bilinear", "bilinear", "bicubic")), "dtype": "float32"}


def resized(d: Draw, elements: int = 0, modes: tuple[str, ...] = ()) -> Options:
    wave = not modes and d.chance(8)  # one axis, whose tables are not cached
    elements = elements or 1 << d.choice((14, 15, 16, 17, 18, 19, 20))
    rank, longest = d.choice((3, 4, 4, 4, 4, 5)), d.choice((2000, 2000, 20_000))
    least = d.choice((0.08, 0.08, 0.002))  # factor: to a column, or few of many
    if modes:
        rank = 4
    if wave:
        elements, rank, longest = 1 << 20, d.choice((3, 4)), 400_000
    while True:
        channels = d.choice((1, 2, 3, 4, 8, length(d, 1, 200), d.randint(90, 200)))
        shape = [d.choice((1, 1, 2, 5)), channels,
                 *(length(d, 2, longest) for _ in range(rank - 2))]  # fmt: skip
        factors = [math.exp(d.uniform(math.log(least), 2)) for _ in shape[2:]]
        if d.chance(2):
            factors = factors[:1] * len(factors)
        out = [max(1, round(n * f)) for n, f in zip(shape[2:], factors, strict=True)]
        if d.chance(12):
            out[-1] = 1
        if wave and rank == 4:  # in modes that only images have
            shape[2] = out[0] = 1
        count = math.prod(shape) + math.prod([*shape[:2], *out])
        if elements // 4 <= count <= elements:
            break
    mode = d.choice(modes or MODES[rank])
    dtype = d.dtype((*FLOATS, "uint8"))
    return {
        "op": "interpolate", "dtype": dtype, "shape": shape, "size": out, "mode": mode,
        "order": 0 if dtype == "uint8" else d.choice((0, 1, 2)),
        "align_corners": bool(d.chance(2)) if mode.endswith(("linear", "cubic")) else None,
        "antialias": mode in ("bilinear", "bicubic") and bool(d.chance(3)), "wants": ["x"],
    }  # fmt: skip


def classes(o: Options) -> list[str]:
    counted = [*common_classes(o), o["op"], f"layout of x {o['layouts']['x']}"]
    if o["op"] == "deform_conv2d":
        counted.append(f"offsets of {o['spread']} pixels")
    return counted


def inputs(o: Options, data: Data) -> dict[str, Tensor]:
    if o["dtype"] == "uint8":
        return {"x": torch.randint(256, o["shape"], generator=data.source, dtype=torch.uint8)}
    if o["op"] == "interpolate":
        shapes = {"x": o["shape"]}
    else:
        taps = o["offset_group"] * math.prod(o["kernel"])
        shapes = {
            "x": [o["batch"], o["channels"], *o["size"]],
            "weight": [o["outputs"], o["channels"] // o["group"], *o["kernel"]],
            "offset": [o["batch"], 2 * taps, *o["out"]],
            **({"bias": [o["outputs"]]} if o["bias"] else {}),
            **({"mask": [o["batch"], taps, *o["out"]]} if o["version"] == 2 else {}),
        }
    dtype = FLOATS[o["dtype"]]
    return {
        name: (data.normal(shape) * (o["spread"] if name == "offset" else 1)).to(dtype)
        for name, shape in shapes.items()
    }


def call(o: Options, tensors: dict[str, Tensor]) -> Tensor:
    if o["op"] == "interpolate":
        options = {name: o[name] for name in ("size", "mode", "align_corners", "antialias")}
        return myops.interpolate(tensors["x"], **options)
    return myops.deform_conv2d(
        tensors["x"], tensors["offset"], tensors["weight"], tensors.get("bias"), o["stride"],
        tuple(o["pads"]), o["dilation"], tensors.get("mask"),
    )  # fmt: skip


def run(o: Options, tensors: dict[str, Tensor], wants: list[str], grad: Tensor | None,
        arriving: dict[str, Tensor]) -> dict[str, Tensor]:  # fmt: skip
    """The result, the gradients that are wanted, and those of these; by name."""
    leaves = {name: tensor.detach() for name, tensor in tensors.items()}
    if grad is None:
        return {"y": call(o, leaves)}
    wanted = {name: leaves[name].requires_grad_() for name in wants}
    twice = o["order"] == 2
    if twice and (o["grad_wants"] or o["op"] == "interpolate"):
        wanted["grad"] = grad = grad.detach().requires_grad_()
    y = call(o, leaves)
    first = torch.autograd.grad(y, [leaves[name] for name in wants], grad, create_graph=twice)
    results = {"y": y, **{f"gradient of {n}": one for n, one in zip(wants, first, strict=True)}}
    pairs = [(one, arriving[name]) for name, one in zip(wants, first, strict=True)
             if one.requires_grad]  # fmt: skip
    if twice and pairs:
        ones, others = zip(*pairs, strict=True)
        second = torch.autograd.grad(ones, [*wanted.values()], others, allow_unused=True)
        results |= {f"second gradient of {name}": one
                    for name, one in zip(wanted, second, strict=True)
                    if one is not None}  # fmt: skip
    return results


def check(o: Options) -> None:
    data = begin(o)
    tensors = inputs(o, data)
    laid = {name: data.lay(tensor, o["layouts"][name]) for name, tensor in tensors.items()}
    wants, grad, arriving = o["wants"], None, {}
    if o["order"]:
        dtype, shape = FLOATS[o["dtype"]], result_shape(o)
        grad = data.lay(data.normal(shape).to(dtype), o["layouts"]["grad"])
        arriving = {
            name: data.lay(data.normal(laid[name].shape).to(dtype), o["layouts"]["arriving"])
            for name in wants
        }
    got = run(o, laid, wants, grad, arriving)

    torch.set_num_threads(other_threads(o))
    every = [name for name in laid if name != "bias"]  # whose gradient is torch's own sum
    others = every if o["all_wants"] and o["order"] == 1 else wants
    again = run(o, {name: tensor.contiguous() for name, tensor in laid.items()}, others,
                None if grad is None else grad.contiguous(),
                {name: tensor.contiguous() for name, tensor in arriving.items()})  # fmt: skip
    for name, result in got.items():
        same = others == wants or name == "y" or o["op"] == "interpolate"
        agree(o, f"{name}, with other threads and inputs in order", name, result, again[name], same)
    check_alone(o, laid, grad, got, data)


def result_shape(o: Options) -> list[int]:
    if o["op"] == "interpolate":
        return [*o["shape"][:2], *o["size"]]
    return [o["batch"], o["outputs"], *o["out"]]


def check_alone(o: Options, laid: dict[str, Tensor], grad: Tensor | None, got: dict[str, Tensor],
                data: Data) -> None:  # fmt: skip
    """The results that belong to one image, of a resize to some of its channels."""
    images, channels = laid["x"].shape[:2]
    image = data.below(images)
    part: tuple[slice, ...] = (slice(image, image + 1),)
    if o["op"] == "interpolate":
        part = (*part, slice(0, 1 + data.below(channels)))

    shared = ("weight", "bias")
    some = {name: tensor if name in shared else tensor[part] for name, tensor in laid.items()}
    wants = [name for name in o["wants"] if name not in shared]
    own = grad[part] if grad is not None and wants else None
    for name, result in run({**o, "order": 1}, some, wants, own, {}).items():
        same = name == "y" or o["op"] == "interpolate"
        agree(o, f"{name}, of a part alone", name, got[name][part], result, same)


def agree(o: Options, what: str, name: str, got: Tensor, again: Tensor, same: bool) -> None:
    """The same bits. Tiles of a gradient of deform_conv2d depend on the number of images and on
    which gradients are wanted, so its sums have another order then."""
    if same:
        equal_bits(what, got, again)
    else:
        compare(what, got, exact(again), calls_deform_conv2d.limits(o, name))
