"""Half floats and bytes against float32, and bytes against torch's own path for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

import myops
from benchmarks.also._row import Row, any_disturbed, measured
from benchmarks.case import Candidate
from benchmarks.cases import deform_conv2d
from benchmarks.cases.deform_conv2d import PROBLEMS, DeformCase
from benchmarks.cases.resize import SHAPES, TORCH_MODES, ResizeCase
from benchmarks.measure import Plan
from benchmarks.report.text import duration
from benchmarks.verify import largest_error

TITLE = "Other dtypes"
EXPLANATION = (
    "Time of a dtype / (time of float32 + time to convert the inputs to float32 and the result "
    "back). For uint8 also: time of torch's `F.interpolate` with antialias=False / ours, "
    "in the same layout. (torch rounds between its two passes; where cubic "
    "overshoots it is up to 16 steps off.)"
)
LAYOUTS = {torch.contiguous_format: "", torch.channels_last: " channels_last"}
HALVES = (torch.float16, torch.bfloat16)
# What one rounding to the dtype may change, relative to the largest element.
ROUNDING = {torch.float16: 1e-3, torch.bfloat16: 8e-3, torch.uint8: 1.01 / 255}


def rows(threads: int, plan: Plan) -> Iterator[Row]:
    torch.set_num_threads(threads)
    for mode in TORCH_MODES:
        for name, (shape, scale) in SHAPES.items():
            case = ResizeCase(mode, shape, scale, name=name)
            x = torch.from_numpy(case.inputs["x"])
            call = partial(myops.interpolate, scale_factor=scale, mode=TORCH_MODES[mode])
            bytes_ = (x.sigmoid() * 255).to(torch.uint8)
            if name in ("256 x3", "1080p x0.5"):
                for dtype in HALVES:
                    yield _against_float32(case.title, threads, plan, call, {"input": x}, dtype)
            yield _against_float32(case.title, threads, plan, call, {"input": bytes_}, torch.uint8)
            for layout in LAYOUTS:
                yield _against_torch(case, threads, plan, bytes_, layout)
            case.release()
    for name in ("a", "d"):
        case = DeformCase(name, PROBLEMS[name])
        tensors = {key: torch.from_numpy(array) for key, array in case.inputs.items()}
        for dtype in HALVES:
            yield _against_float32(
                case.title, threads, plan, deform_conv2d.torch_call, tensors, dtype
            )


def _against_float32(
    title: str,
    threads: int,
    plan: Plan,
    call: Callable[..., Tensor],
    tensors: dict[str, Tensor],
    dtype: torch.dtype,
) -> Row:
    narrow = {key: tensor.to(dtype) for key, tensor in tensors.items()}
    wide = {key: tensor.float() for key, tensor in narrow.items()}
    result = call(**wide)
    _check(title, call(**narrow), result, dtype)

    def convert() -> Tensor:
        for tensor in narrow.values():
            tensor.float()
        return result.to(dtype)

    found = measured(
        [
            _candidate("narrow", partial(call, **narrow)),
            _candidate("float32", partial(call, **wide)),
            _candidate("convert", convert),
        ],
        plan,
    )
    narrow_s, float_s, convert_s = (found[key].seconds for key in ("narrow", "float32", "convert"))
    name = str(dtype).removeprefix("torch.")
    return Row(
        f"{title}, {name}",
        threads,
        narrow_s / (float_s + convert_s),
        "x",
        "at most",
        1.0,
        f"{duration(narrow_s)} / ({duration(float_s)} + {duration(convert_s)})",
        any_disturbed(found),
    )


def _check(title: str, result: Tensor, float32: Tensor, dtype: torch.dtype) -> None:
    expected = float32.double()
    if dtype == torch.uint8:
        expected = expected.clamp(0, 255)
    error = largest_error([result.double().numpy()], [expected.numpy()])
    if not error <= ROUNDING[dtype]:
        raise RuntimeError(f"{title}, {dtype}: wrong result, error {error:.1e}")


def _against_torch(
    case: ResizeCase, threads: int, plan: Plan, x: Tensor, layout: torch.memory_format
) -> Row:
    options = {"scale_factor": case.scale, "mode": TORCH_MODES[case.mode]}
    x = x.contiguous(memory_format=layout)
    ours, theirs = myops.interpolate(x, **options), F.interpolate(x, **options)
    # torch rounds and saturates between its two passes: half a step in the mean, and up to 16
    # where cubic overshoots. Ours has been compared with float32 before.
    gap = np.abs(ours.short().numpy() - theirs.short().numpy()).mean()
    if not gap <= 0.75:
        raise RuntimeError(f"{case.title}, uint8: {gap:.2f} steps from torch in the mean")
    found = measured(
        [
            _candidate("ours", partial(myops.interpolate, x, **options)),
            _candidate("torch", partial(F.interpolate, x, **options)),
        ],
        plan,
    )
    our_s, torch_s = found["ours"].seconds, found["torch"].seconds
    return Row(
        f"{case.title}, uint8{LAYOUTS[layout]}, torch / ours",
        threads,
        torch_s / our_s,
        "x",
        "at least",
        1.0,
        f"{duration(torch_s)} / {duration(our_s)}",
        any_disturbed(found),
    )


def _candidate(name: str, call: Callable[[], Tensor]) -> Candidate:
    return Candidate(name, call, lambda out: [out.numpy()], "allocated", "torch")
