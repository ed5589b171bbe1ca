"""deform_conv2d: kernel 3x3, stride 1, padding 1, with bias; forward, and all gradients."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import torch
from onnx import helper

import myops
from benchmarks import arrays, ort_session
from benchmarks.case import Arrays, Candidate, Case, Target

TAPS = 9
# Operations of one bilinear sample: 4 weights, 4 products and sums.
_SAMPLE_FLOPS = 11


@dataclass(frozen=True)
class Problem:
    """Lengths of one problem; outputs are as large as inputs."""

    batch: int
    channels: int
    height: int
    width: int
    filters: int
    groups: int = 1
    offset_groups: int = 1
    mask: bool = True

    def __str__(self) -> str:
        dims = f"{self.batch}x{self.channels}x{self.height}x{self.width}->{self.filters}"
        extras = [f"{self.groups} groups"] * (self.groups > 1)
        extras += [f"{self.offset_groups} offset groups"] * (self.offset_groups > 1)
        extras += ["mask" if self.mask else "no mask"]
        return ", ".join([dims, *extras])


PROBLEMS = {
    "a": Problem(1, 64, 64, 64, 64),
    "b": Problem(1, 256, 32, 32, 256),
    "c": Problem(1, 64, 128, 128, 64, offset_groups=8),
    "d": Problem(4, 128, 56, 56, 128, mask=False),
    "e": Problem(1, 64, 64, 64, 64, groups=64),
    "f": Problem(1, 3, 10, 10, 3),
}
FORWARD = {
    "a": Target(1.5, 1.7),
    "b": Target(1.2, 1.3),
    "c": Target(1.6, 1.9),
    "d": Target(1.35, 1.5),
    "e": Target(2.5, 3.5),
    "f": Target(1.3, 2.0),
}
BACKWARD = {
    "a": Target(2.5, 3.3),
    "b": Target(1.5, 1.8),
    "c": Target(2.5, 3.6),
    "d": Target(2.0, 2.6),
    "e": Target(4.0, 6.0),
}


class DeformCase(Case):
    """One problem, forward or backward.

    The inputs are named as those of the node: X, W, offset, B and, where there is one, mask; the
    gradients of a backward case come in this order.
    """

    def __init__(
        self, name: str, problem: Problem, target: Target | None = None, *, backward: bool = False
    ) -> None:
        self.problem, self.backward = problem, backward
        p = problem
        pixels = p.batch * p.height * p.width
        product = 2 * pixels * p.filters * p.channels // p.groups * TAPS
        samples = pixels * p.channels * TAPS
        memory = pixels * (p.channels + p.filters + p.offset_groups * TAPS * (2 + p.mask))
        weights = p.filters * p.channels // p.groups * TAPS
        # Backward: two products of the same size; each sample is taken again, spread, and
        # differentiated by y, by x and by its mask. Everything but the output is read and written.
        super().__init__(
            op="deform_conv2d",
            group="deform_conv2d" + " backward" * backward,
            name=name,
            shape=str(problem),
            target=target,
            flops=2 * product + 4 * _SAMPLE_FLOPS * samples
            if backward
            else product + _SAMPLE_FLOPS * samples,
            bytes=4 * (memory + weights) * (2 if backward else 1),
            tolerance=2e-4 if backward else 2e-5,
        )

    @cached_property
    def output_shape(self) -> tuple[int, int, int, int]:
        p = self.problem
        return (p.batch, p.filters, p.height, p.width)

    @cached_property
    def inputs(self) -> Arrays:
        p = self.problem
        moves = p.offset_groups * TAPS
        found = {
            "X": arrays.normal((p.batch, p.channels, p.height, p.width), 4),
            "W": arrays.normal((p.filters, p.channels // p.groups, 3, 3), 5),
            "offset": arrays.off_integers(
                (p.batch, 2 * moves, p.height, p.width), 6, width=2.0, margin=0.02
            ),
            "B": arrays.normal((p.filters,), 7),
        }
        if p.mask:
            mask = arrays.normal((p.batch, moves, p.height, p.width), 8)
            found["mask"] = torch.from_numpy(mask).sigmoid().numpy()
        return found

    @cached_property
    def grad(self) -> np.ndarray:
        """The gradient that arrives at the output in a backward case."""
        return arrays.normal(self.output_shape, 9)

    @cached_property
    def expected(self) -> Sequence[np.ndarray]:
        p = self.problem
        tensors = {
            name: torch.from_numpy(array).double().requires_grad_(self.backward)
            for name, array in self.inputs.items()
        }
        out = _reference()(
            **tensors, pads=(1, 1, 1, 1), group=p.groups, offset_group=p.offset_groups
        )
        if not self.backward:
            return [out.numpy()]
        grad = torch.from_numpy(self.grad).double()
        return [item.numpy() for item in torch.autograd.grad(out, [*tensors.values()], grad)]

    def release(self) -> None:
        super().release()
        self.__dict__.pop("grad", None)


def _reference() -> Callable[..., torch.Tensor]:
    """The plain torch operations that the tests compare with."""
    tests = str(Path(__file__).resolve().parents[2] / "tests")
    if tests not in sys.path:
        sys.path.append(tests)
    from reference_deform_conv2d import deform_conv2d

    return deform_conv2d


def cases() -> list[Case]:
    forward = [DeformCase(name, PROBLEMS[name], target) for name, target in FORWARD.items()]
    backward = [
        DeformCase(name, PROBLEMS[name], target, backward=True) for name, target in BACKWARD.items()
    ]
    return [*forward, *backward]


def ours(case: DeformCase, threads: int) -> Iterator[Candidate]:
    if case.backward:
        yield autograd_candidate("myops.deform_conv2d, autograd", "torch", case, torch_call)
        return
    tensors = {name: torch.from_numpy(array) for name, array in case.inputs.items()}
    yield Candidate(
        "myops.deform_conv2d",
        partial(torch_call, **tensors),
        lambda out: [out.numpy()],
        "allocated",
        "torch",
    )
    yield from ort_session.candidates(
        "myops::DeformConv",
        "onnxruntime",
        *onnx_model(case, "myops"),
        arrays.empty(case.output_shape),
        threads,
        allocated=False,
    )


def torch_call(
    X: torch.Tensor,
    W: torch.Tensor,
    offset: torch.Tensor,
    B: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    return myops.deform_conv2d(X, offset, W, B, padding=1, mask=mask)


def autograd_candidate(
    name: str, side: str, case: DeformCase, call: Callable[..., torch.Tensor]
) -> Candidate:
    """All gradients of `call` by autograd; the forward pass is not part of it."""
    tensors = {
        name: torch.from_numpy(array).requires_grad_(True) for name, array in case.inputs.items()
    }
    out, grad = call(**tensors), torch.from_numpy(case.grad)
    leaves = list(tensors.values())
    return Candidate(
        name,
        lambda: torch.autograd.grad(out, leaves, grad, retain_graph=True),
        lambda grads: [item.numpy() for item in grads],
        "allocated",
        side,
    )


def onnx_model(case: DeformCase, domain: str) -> tuple[bytes, Arrays]:
    """One DeformConv of the domain, ours or the standard's, and the arrays that stay inputs."""
    p = case.problem
    node = helper.make_node(
        "DeformConv",
        ["X", "W", "offset", "B", *["mask"] * p.mask],
        ["Y"],
        domain=domain,
        group=p.groups,
        offset_group=p.offset_groups,
        kernel_shape=[3, 3],
        pads=[1, 1, 1, 1],
        strides=[1, 1],
        dilations=[1, 1],
    )
    constants = {name: case.inputs[name] for name in ("W", "B")}
    inputs = {name: array for name, array in case.inputs.items() if name not in constants}
    return ort_session.model([node], inputs, constants, ["Y"]), inputs
