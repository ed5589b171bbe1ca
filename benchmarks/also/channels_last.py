"""Inputs in channels_last against contiguous ones, ours in torch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

import myops
from benchmarks.also._row import Row, any_disturbed, measured
from benchmarks.case import Candidate, Case
from benchmarks.cases import deform_conv2d, resize
from benchmarks.cases.deform_conv2d import DeformCase
from benchmarks.cases.resize import TORCH_MODES, ResizeCase
from benchmarks.measure import Plan
from benchmarks.report.text import duration
from benchmarks.verify import largest_error

TITLE = "channels_last"
EXPLANATION = (
    "Time with all 4-D inputs in channels_last / time with contiguous inputs. More than 1.1 would "
    "suggest a hidden transposition."
)
LAYOUTS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}


def rows(threads: int, plan: Plan) -> Iterator[Row]:
    torch.set_num_threads(threads)
    for case in [*resize.cases(), *deform_conv2d.cases()]:
        candidates = [_candidate(case, name, layout) for name, layout in LAYOUTS.items()]
        _compare(case, *candidates)
        found = measured(candidates, plan)
        last, first = found["channels_last"].seconds, found["contiguous"].seconds
        detail = f"{duration(last)} / {duration(first)}"
        disturbed = any_disturbed(found)
        yield Row(case.title, threads, last / first, "x", "at most", 1.1, detail, disturbed)
        case.release()


def _compare(case: Case, contiguous: Candidate, channels_last: Candidate) -> None:
    """Both layouts give the same result; the main table compares the first with float64."""
    first, last = (item.results(item.run()) for item in (contiguous, channels_last))
    error = largest_error(last, first)
    if not error <= case.tolerance:
        raise RuntimeError(f"{case.title}: channels_last is wrong, error {error:.1e}")


def _candidate(case: Case, name: str, layout: torch.memory_format) -> Candidate:
    tensors = {
        key: _laid_out(torch.from_numpy(array), layout) for key, array in case.inputs.items()
    }
    if isinstance(case, ResizeCase):
        call = partial(myops.interpolate, scale_factor=case.scale, mode=TORCH_MODES[case.mode])
        if not case.backward:
            if "out" in inspect.signature(myops.interpolate).parameters:  # no page faults
                call = partial(call, out=_laid_out(torch.zeros(case.output_shape), layout))
            return _forward(name, partial(call, tensors["x"]))
        x = _laid_out(torch.zeros(case.input_shape), layout)
        return _gradient(name, call, {"x": x}, tensors["x"])
    if not case.backward:
        return _forward(name, partial(deform_conv2d.torch_call, **tensors))
    assert isinstance(case, DeformCase)
    grad = _laid_out(torch.from_numpy(case.grad), layout)
    return _gradient(name, deform_conv2d.torch_call, tensors, grad)


def _laid_out(tensor: Tensor, layout: torch.memory_format) -> Tensor:
    return tensor.contiguous(memory_format=layout) if tensor.dim() == 4 else tensor


def _forward(name: str, call: Callable[[], Tensor]) -> Candidate:
    return Candidate(name, call, lambda out: [out.numpy()], "allocated", "torch")


def _gradient(
    name: str, call: Callable[..., Tensor], tensors: dict[str, Tensor], grad: Tensor
) -> Candidate:
    leaves = [item.requires_grad_(True) for item in tensors.values()]
    first, *rest = tensors.items()
    out = call(first[1], **dict(rest))
    return Candidate(
        name,
        partial(torch.autograd.grad, out, leaves, grad, retain_graph=True),
        lambda grads: [item.numpy() for item in grads],
        "allocated",
        "torch",
    )
