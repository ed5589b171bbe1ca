"""The calls that tests/leaks.py measures, in groups: every op, called in every way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Way = tuple[str, int, Callable[[], Any]]  # name, number of calls, a function that calls once


def refused(call: Callable[[], Any]) -> Callable[[], None]:
    def run() -> None:
        try:
            call()
        except (RuntimeError, ValueError, TypeError):
            return
        raise AssertionError("the call was not refused")

    return run


def of_ops() -> Iterator[Way]:
    import torch

    import myops

    x = torch.rand(1, 1, 2, 3)
    strided = torch.rand(1, 1, 3, 2).mT
    scales, sizes = torch.tensor([1.0, 1.0, 2.0, 2.0]), torch.tensor([1, 1, 4, 6])
    offset, mask, weight = torch.rand(1, 2, 2, 3), torch.rand(1, 1, 2, 3), torch.rand(1, 1, 1, 1)
    enlarged = torch.empty(1, 1, 4, 6)
    ops = torch.ops.myops

    yield "my_add, direct", 100_000, lambda: myops.my_add(x, x)
    yield "resize, direct", 100_000, lambda: myops.resize(x, [1, 1, 2, 2], mode="linear")
    yield "resize by a tensor, direct", 100_000, lambda: myops.resize(x, scales)
    yield "interpolate, direct", 100_000, lambda: myops.interpolate(x, scale_factor=2)
    yield "deform_conv2d, direct", 100_000, lambda: myops.deform_conv2d(x, offset, weight)
    yield "my_add, out, direct", 100_000, lambda: myops.my_add(x, x, out=x.clone())
    yield "resize, out, direct", 100_000, lambda: myops.resize(x, scales, out=enlarged)
    yield "my_add, below autograd", 100_000, lambda: myops.my_add(strided, strided)
    yield "resize, below autograd", 100_000, lambda: myops.resize(strided.conj(), [1, 1, 2, 2])
    yield "my_add, dispatcher", 100_000, lambda: ops.my_add(x, x)
    yield "resize, dispatcher", 100_000, lambda: ops.resize(x, None, scales, mode="linear")
    yield (
        "resize with sizes and axes, dispatcher",
        100_000,
        lambda: ops.resize(x, None, None, sizes, axes=[0, 1, 2, 3]),
    )
    yield (
        "resize.values, dispatcher",
        100_000,
        lambda: ops.resize.values(x, None, [1.0, 1.0, 2.0, 2.0], None),
    )
    yield (
        "resize.values with sizes, dispatcher",
        100_000,
        lambda: ops.resize.values(x, None, None, [1, 1, 4, 6], axes=[0, 1, 2, 3]),
    )
    yield (
        "deform_conv2d, dispatcher",
        100_000,
        lambda: ops.deform_conv2d(x, weight, offset, None, mask, pads=[0, 0, 0, 0]),
    )
    yield "my_add.out, dispatcher", 100_000, lambda: ops.my_add.out(x, x, out=x.clone())
    yield "resize.out, dispatcher", 100_000, lambda: ops.resize.out(x, None, scales, out=enlarged)
    yield (
        "resize.values_out, dispatcher",
        100_000,
        lambda: ops.resize.values_out(x, None, [1.0, 1.0, 2.0, 2.0], None, out=enlarged),
    )


def of_derivatives() -> Iterator[Way]:
    import torch

    import myops

    x = torch.rand(1, 1, 2, 3, requires_grad=True)
    y = torch.rand(1, 1, 2, 3, requires_grad=True)
    scales = torch.tensor([1.0, 1.0, 2.0, 2.0])
    offset, mask = torch.rand(1, 2, 2, 3, requires_grad=True), torch.rand(1, 1, 2, 3)
    weight = torch.rand(1, 1, 1, 1, requires_grad=True)
    ops = torch.ops.myops
    calls: dict[str, Callable[[], torch.Tensor]] = {
        "my_add": lambda: myops.my_add(x, y),
        "resize": lambda: myops.resize(x, [1, 1, 2, 2], mode="linear"),
        "resize by a tensor": lambda: myops.resize(x, scales),
        "deform_conv2d": lambda: myops.deform_conv2d(x, offset, weight, mask=mask),
        "torch.ops my_add": lambda: ops.my_add(x, y),
        "torch.ops resize": lambda: ops.resize(x, None, scales, axes=[0, 1, 2, 3]),
        "torch.ops resize.values": lambda: ops.resize.values(x, None, None, [1, 1, 4, 6]),
        "torch.ops deform_conv2d": lambda: ops.deform_conv2d(x, weight, offset, None, mask),
    }
    leaves = {"my_add": [x, y], "resize": [x], "deform_conv2d": [x, offset, weight]}

    def of(name: str) -> list[torch.Tensor]:
        return next(found for op, found in leaves.items() if op in name)

    for name, call in calls.items():
        wanted = of(name)

        def first(call: Any = call, inputs: Any = wanted) -> None:
            torch.autograd.grad(call().square().sum(), inputs)

        def second(call: Any = call, inputs: Any = wanted) -> None:
            grads = torch.autograd.grad(call().square().sum(), inputs, create_graph=True)
            torch.autograd.grad(sum(item.square().sum() for item in grads), inputs)

        yield f"{name}, backward", 2_000, first
        yield f"{name}, second derivatives", 1_500, second


def of_programs() -> Iterator[Way]:
    import torch

    import myops

    x = torch.rand(1, 1, 2, 3)
    batch = torch.rand(2, 1, 1, 2, 3)
    scales = torch.tensor([1.0, 1.0, 2.0, 2.0])
    offset, weight = torch.rand(1, 2, 2, 3), torch.rand(1, 1, 1, 1)
    calls: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "my_add": lambda x: myops.my_add(x, x),
        "resize": lambda x: myops.resize(x, [1, 1, 2, 2], mode="linear"),
        "resize by a tensor": lambda x: myops.resize(x, scales),
        "deform_conv2d": lambda x: myops.deform_conv2d(x, offset, weight),
    }
    meta = torch.device("meta")
    on_meta = x.to(meta), offset.to(meta), weight.to(meta)
    for name, call in calls.items():
        compiled = torch.compile(call, backend="aot_eager", fullgraph=True)
        mapped = torch.func.vmap(call)
        derived = torch.func.grad(lambda x, call=call: call(x).sum())
        trained = x.clone().requires_grad_()

        def step(compiled: Any = compiled, leaf: Any = trained) -> None:
            torch.autograd.grad(compiled(leaf).sum(), [leaf])

        def forward_mode(call: Any = call) -> None:
            torch.func.jvp(call, (x,), (x,))

        yield f"{name}, compiled", 4_000, lambda compiled=compiled: compiled(x)
        yield f"{name}, compiled training", 1_500, step
        yield f"{name}, vmap", 1_500, lambda mapped=mapped: mapped(batch)
        yield f"{name}, torch.func.grad", 1_500, lambda derived=derived: derived(x)
        if name == "deform_conv2d":
            yield f"{name}, meta", 2_000, lambda: myops.deform_conv2d(*on_meta)
        elif name != "resize by a tensor":
            yield f"{name}, meta", 2_000, lambda call=call: call(x.to("meta"))
        yield f"{name}, forward mode", 1_500, forward_mode


def of_refusals() -> Iterator[Way]:
    import torch

    import myops

    x, scales = torch.rand(1, 1, 2, 3), torch.tensor([1.0, 1.0, -2.0, 2.0])
    offset, weight = torch.rand(1, 2, 2, 3), torch.rand(1, 1, 1, 1)
    ops = torch.ops.myops
    calls: dict[str, Callable[[], Any]] = {
        "my_add, direct": lambda: myops.my_add(x, x.mT),
        "my_add, dispatcher": lambda: ops.my_add(x, x.mT),
        "my_add of a dtype, dispatcher": lambda: ops.my_add(x, x.to(torch.int16)),
        "my_add.out, dispatcher": lambda: ops.my_add.out(x, x, out=torch.empty(1)),
        "my_add of a sparse tensor": lambda: myops.my_add(x, x.to_sparse()),
        "my_add on two devices": lambda: myops.my_add(x, x.to("meta")),
        "resize, direct": lambda: myops.resize(x, [1, 1, -2, 2], mode="linear"),
        "resize, dispatcher": lambda: ops.resize(x, None, scales, mode="linear"),
        "resize.values, dispatcher": lambda: ops.resize.values(x, None, [1.0, -2.0], axes=[2, 3]),
        "resize of an unknown mode, direct": lambda: myops.resize(x, [1, 1, 2, 2], mode="cubist"),
        "resize of an unknown mode, dispatcher": lambda: ops.resize(x, None, scales, mode="cubist"),
        "resize by lists and tensors": lambda: myops.resize(x, [1, 1, 2, 2], scales),
        "deform_conv2d, dispatcher": lambda: ops.deform_conv2d(x, weight, offset[:, :1]),
        "deform_conv2d, groups": lambda: myops.deform_conv2d(x, offset[:, :1], weight),
    }
    for name, call in calls.items():
        yield f"{name}, refused", 10_000, refused(call)


def of_prototypes() -> Iterator[Way]:
    import prototype_ops
    import torch

    clip = prototype_ops.soft_clip_prototype("leaks")
    x = torch.rand(2, 3)
    leaf = x.clone().requires_grad_()
    yield "prototype", 20_000, lambda: clip(x, limit=2.0)
    yield "prototype, dispatcher", 20_000, lambda: torch.ops.leaks.soft_clip(x)
    yield "prototype, backward", 2_000, lambda: torch.autograd.grad(clip(leaf).sum(), [leaf])
    yield "prototype, vmap", 2_000, lambda: torch.vmap(clip)(x)
    yield "prototype, refused", 20_000, refused(lambda: clip(x, limit=-1.0))


def of_arrays() -> Iterator[Way]:
    import numpy as np

    from myops import _numpy_call, _shape_rule

    x = np.ones((1, 1, 2, 3), np.float32)
    scales = np.float32([1, 1, 2, 2])
    yield "my_add, NumPy", 50_000, lambda: _numpy_call.call("my_add", [x, x])
    yield (
        "resize, NumPy",
        50_000,
        lambda: _numpy_call.call(
            "resize", [x, None, scales, None], {"mode": "linear", "axes": [0, 1, 2, 3]}
        ),
    )
    yield (
        "resize, NumPy, refused",
        50_000,
        refused(lambda: _numpy_call.call("resize", [x, None, -scales, None])),
    )
    yield (
        "resize, shape inference",
        50_000,
        lambda: _shape_rule.infer(
            "resize", [["N", 1, 2, 3], None, [4], None], values=[None, None, [1, 1, 2, 2], None]
        ),
    )


def of_another_package() -> Iterator[Way]:
    """The ops of examples/gallery: a library of its own, with its own copy of the adapters."""
    import myops_gallery
    import torch

    points, features = torch.rand(1, 3, 3), torch.rand(1, 3, 2)
    planes, homographies = torch.rand(1, 2, 4, 3, 3), torch.eye(3).expand(1, 2, 3, 3)
    densities, colors, lengths = torch.rand(2, 3), torch.rand(2, 3, 1), torch.rand(2, 3)
    size, numbers = torch.tensor([2, 3]), [2, 3]
    ops = torch.ops.myops_gallery
    calls: dict[str, Callable[[], Any]] = {
        "volume_render, direct": lambda: myops_gallery.volume_render(densities, colors, lengths),
        "splat_points, direct": lambda: myops_gallery.splat_points(points, features, numbers),
        "homography_warp by a tensor, direct": lambda: myops_gallery.homography_warp(
            planes, homographies, size
        ),
        "volume_render, dispatcher": lambda: ops.volume_render(densities, colors, lengths),
        "splat_points.values, dispatcher": lambda: ops.splat_points.values(
            points, features, numbers, radius=2.0
        ),
        "homography_warp, dispatcher": lambda: ops.homography_warp(planes, homographies, size),
    }
    for name, call in calls.items():
        yield name, 100_000, call

    def derived(call: Callable[..., Any], *tensors: torch.Tensor) -> Callable[[], Any]:
        leaves = [tensor.clone().requires_grad_() for tensor in tensors]

        def run() -> None:
            result = call(*leaves)
            result = result[0] if isinstance(result, tuple) else result
            torch.autograd.grad(result.sum(), leaves)

        return run

    render = derived(myops_gallery.volume_render, densities, colors, lengths)
    splat = derived(lambda a, b: ops.splat_points.values(a, b, numbers), points, features)
    yield "volume_render, backward", 30_000, render
    yield "splat_points.values, dispatcher, backward", 10_000, splat

    calls = {
        "volume_render, direct": lambda: myops_gallery.volume_render(densities, colors, lengths.T),
        "volume_render, dispatcher": lambda: ops.volume_render(densities, colors, lengths.T),
        "splat_points.values, dispatcher": lambda: ops.splat_points.values(
            points, features, numbers, radius=-1.0
        ),
        "homography_warp, dispatcher": lambda: ops.homography_warp(planes, homographies, size[:1]),
    }
    for name, call in calls.items():
        yield f"{name}, refused", 30_000, refused(call)


def of_a_leak() -> Iterator[Way]:
    """A leak that must be found: each call keeps one byte."""
    kept = []
    yield "probe", 2_000, lambda: kept.append(bytearray(1))


GROUPS = {
    "ops": of_ops,
    "derivatives": of_derivatives,
    "programs": of_programs,
    "refusals": of_refusals,
    "prototypes": of_prototypes,
    "arrays": of_arrays,
}

OTHERS = {"probe": of_a_leak, "gallery": of_another_package}
