"""Measures the CUDA kernels beside those of PyTorch and torchvision: `make test-cuda`.

Candidates of a case run in turns in one process; a time is the median over the turns, of the
device's own clock. Large tensors first, then random configurations (`random_shapes`), most of them
so small that the time is that of the calls.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

import myops
from benchmarks.cases.deform_conv2d import PROBLEMS, TAPS
from benchmarks.random_shapes import deform_conv2d as random_deform
from benchmarks.random_shapes import my_add as random_add
from benchmarks.random_shapes.draw import KINDS, Add, Resize, Shape, draw
from benchmarks.random_shapes.problem import channels_last, normal

_TURNS, _REPEATS = 20, 5


class Measured(NamedTuple):
    """A case: what it is compared with, and functions without arguments."""

    name: str
    peer: str
    ours: Callable[[], Any]
    other: Callable[[], Any]


def seconds(function: Callable[[], Any]) -> float:
    """Seconds of one call, on the device."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(_REPEATS):
        function()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3 / _REPEATS


def medians(case: Measured) -> tuple[float, float]:
    """Seconds of ours and of the other, in turns."""
    both = (case.ours, case.other)
    for function in both:
        seconds(function)  # the first call compiles
    times = [[seconds(function) for function in both] for _ in range(_TURNS)]
    first, second = zip(*times, strict=True)
    return statistics.median(first), statistics.median(second)


def cases() -> Iterator[Measured]:
    """my_add and nearest, also compared with a copy, which is as fast as the memory allows."""
    a = torch.rand(1 << 26, device="cuda")
    b, c = torch.rand_like(a), torch.empty_like(a)
    yield Measured("my_add, 2^26", "torch.add", lambda: myops.my_add(a, b), lambda: torch.add(a, b))
    yield Measured("my_add, 2^26", "copy_", lambda: myops.my_add(a, b), lambda: c.copy_(a))
    image = torch.rand(8, 64, 256, 256, device="cuda")
    for mode, antialias in (
        ("nearest", False), ("bilinear", False), ("bicubic", False), ("area", False),
        ("bilinear", True), ("bicubic", True),
    ):  # fmt: skip
        for factor in (2.0, 0.5):
            yield from resizing(image, mode, antialias, factor)
    yield from deforming()


def resizing(image: torch.Tensor, mode: str, antialias: bool, factor: float) -> Iterator[Measured]:
    """Forward and backward."""
    settings: dict[str, Any] = {"scale_factor": factor, "mode": mode, "antialias": antialias}
    name = f"{mode}{', antialias' * antialias}, factor {factor:g}"
    pair = (myops.interpolate, torch.nn.functional.interpolate)
    calls = [lambda call=call: call(image, **settings) for call in pair]
    yield Measured(name, "F.interpolate", *calls)
    leaf = image.clone().requires_grad_()
    results = [call(leaf, **settings) for call in pair]
    grad = torch.rand_like(results[0])
    backward = [lambda y=y: torch.autograd.grad(y, leaf, grad, retain_graph=True) for y in results]
    yield Measured(f"{name}, backward", "F.interpolate", *backward)


def deforming() -> Iterator[Measured]:
    """The problems of `benchmarks/cases`, eight times in batch; with torchvision."""
    try:
        from torchvision.ops import deform_conv2d
    except ImportError:
        print("no torchvision: deform_conv2d is not measured")
        return
    for letter in "abcde":
        problem = PROBLEMS[letter]
        batch, size = 8 * problem.batch, (problem.height, problem.width)
        for dtype in (torch.float32, torch.float16):  # torchvision has no kernel for bfloat16
            shapes = [
                (batch, problem.channels, *size),
                (batch, 2 * TAPS * problem.offset_groups, *size),
                (problem.filters, problem.channels // problem.groups, 3, 3),
                (problem.filters,),
                (batch, TAPS * problem.offset_groups, *size),
            ]
            tensors = [torch.rand(shape, device="cuda", dtype=dtype) for shape in shapes]
            if not problem.mask:
                tensors.pop()
            yield from _deforming(f"{letter} x 8, {dtype}", deform_conv2d, tensors)


def _deforming(
    name: str, peer: Callable[..., Any], tensors: list[torch.Tensor]
) -> Iterator[Measured]:
    def call(function: Callable[..., Any], given: list[torch.Tensor]) -> torch.Tensor:
        x, offset, weight, bias, *mask = given
        return function(x, offset, weight, bias, padding=1, mask=mask[0] if mask else None)

    pair = (myops.deform_conv2d, peer)
    forward = [lambda function=function: call(function, tensors) for function in pair]
    yield Measured(f"deform_conv2d {name}", "torchvision", *forward)
    leaves = [item.requires_grad_() for item in tensors]
    results = [call(function, leaves) for function in pair]
    grad = torch.rand_like(results[0])
    backward = [
        lambda y=y: torch.autograd.grad(y, leaves, grad, retain_graph=True) for y in results
    ]
    yield Measured(f"deform_conv2d {name}, backward", "torchvision", *backward)


def random_case(kind: str, shape: Shape) -> Measured:
    """The peer is torch for my_add and resize, torchvision for deform_conv2d."""
    ours: Callable[..., torch.Tensor]
    other: Callable[..., torch.Tensor]
    if isinstance(shape, Add):
        operands = ((shape.a, shape.a_order), (shape.b, shape.b_order))
        tensors = [random_add._operand(*given, shape.dtype, 0) for given in operands]
        ours, other, peer = myops.my_add, lambda a, b: torch.add(b, a, alpha=2), "torch.add"
    elif isinstance(shape, Resize):
        x = normal(shape.shape, shape.dtype, 0)
        tensors = [channels_last(x) if shape.channels_last else x]
        settings: dict[str, Any] = {"size": shape.size, "mode": shape.mode}
        if shape.mode.endswith(("linear", "cubic")):
            settings |= {"align_corners": shape.align_corners, "antialias": shape.antialias}
        ours = partial(myops.interpolate, **settings)
        other, peer = partial(torch.nn.functional.interpolate, **settings), "F.interpolate"
    else:
        from torchvision.ops import deform_conv2d

        tensors = list(random_deform._tensors(shape, 0).values())
        steps = {name: getattr(shape, name) for name in ("stride", "padding", "dilation")}

        def call(function: Callable[..., torch.Tensor], *given: torch.Tensor) -> torch.Tensor:
            x, weight, offset, bias, *mask = given
            return function(x, offset, weight, bias, mask=mask[0] if mask else None, **steps)

        ours, other = partial(call, myops.deform_conv2d), partial(call, deform_conv2d)
        peer = "torchvision"
    on_device = [item.cuda() for item in tensors]
    if not kind.endswith("backward"):
        calls = [partial(function, *on_device) for function in (ours, other)]
        return Measured(f"{kind} {shape}", peer, *calls)
    leaves = [item.requires_grad_() for item in on_device]
    results = [function(*leaves) for function in (ours, other)]
    grad = torch.rand_like(results[0])
    backward = [partial(torch.autograd.grad, y, leaves, grad, retain_graph=True) for y in results]
    return Measured(f"{kind} {shape}", peer, *backward)


def random_part(seed: int, count: int) -> Iterator[str]:
    """Lines of the page: a table of all kinds, and the ten configurations with the lowest ratios.

    Configurations that the peer refuses are left out.
    """
    yield from ["", f"## Random configurations, seed {seed}", ""]
    yield from ["| | measured | geometric mean | below 1.0 | least |", "|---|---|---|---|---|"]
    rows: list[tuple[float, str]] = []
    for kind in KINDS:
        ratios = []
        for number in range(count):
            shape = draw(kind, seed, number)
            try:
                case = random_case(kind, shape)
                case.other()
            except (RuntimeError, ImportError) as error:
                print(f"{kind} {shape}: left out: {str(error).splitlines()[0]}", flush=True)
                continue
            ours, other = medians(case)
            ratios.append(other / ours)
            rows.append((
                other / ours,
                f"| {case.name} | {1e6 * ours:.1f} | {1e6 * other:.1f} | {case.peer} "
                f"| {other / ours:.2f} |",
            ))  # fmt: skip
        if ratios:
            yield _summary(kind, ratios)
    yield from ["", "The ten with the lowest ratios:", "", *HEADER]
    yield from [row for _, row in sorted(rows)[:10]]


def _summary(kind: str, ratios: Sequence[float]) -> str:
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    below = sum(ratio < 1 for ratio in ratios)
    return f"| {kind} | {len(ratios)} | {mean:.2f} | {below} | {min(ratios):.2f} |"


HEADER = ["| case | ours, us | the other, us | the other | ratio |", "|---|---|---|---|---|"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown", type=Path, help="The page that is written.")
    parser.add_argument("--seed", type=int, default=1, help="Of the random configurations.")
    parser.add_argument("--count", type=int, default=40, help="Of them for each kind.")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("no GPU that this PyTorch can use: nothing is measured")
    device = torch.cuda.get_device_properties(0)
    lines = [
        "# Performance on CUDA", "",
        f"{device.name}, compute capability {device.major}.{device.minor}; PyTorch "
        f"{torch.__version__}, CUDA {torch.version.cuda}; written by `make test-cuda`.", "",
        *HEADER,
    ]  # fmt: skip
    for case in cases():
        ours, other = medians(case)
        lines.append(
            f"| {case.name} | {1e6 * ours:.1f} | {1e6 * other:.1f} | {case.peer} "
            f"| {other / ours:.2f} |"
        )
        print(lines[-1], flush=True)
    for line in random_part(arguments.seed, arguments.count):
        lines.append(line)
        print(line, flush=True)
    if arguments.markdown:
        arguments.markdown.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
