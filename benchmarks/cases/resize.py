"""resize: cubic (a = -0.75) and linear with half-pixel coordinates, nearest asymmetric and floor.

These are the meanings that torch, OpenCV, ONNX Runtime and OpenVINO share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, partial

import numpy as np
import torch
from onnx import helper

import myops
from benchmarks import arrays, ort_session
from benchmarks.case import Arrays, Candidate, Case, Target

TORCH_MODES = {"cubic": "bicubic", "linear": "bilinear", "nearest": "nearest"}
# The name of the mode in ONNX.
COORDINATES = {"cubic": "half_pixel", "linear": "half_pixel", "nearest": "asymmetric"}
# Operations for one output in the separable form, one axis: products and sums.
_TAPS = {"cubic": 4, "linear": 2, "nearest": 0}

SHAPES = {
    "256 x3": ((1, 3, 256, 256), 3.0),
    "720p x2": ((1, 3, 720, 1280), 2.0),
    "64ch x2": ((1, 64, 64, 64), 2.0),
    "1080p x0.5": ((1, 3, 1080, 1920), 0.5),
}
TARGETS = {
    "cubic": [Target(1.4, 2.0), Target(1.1, 1.8), Target(2.0, 2.5), Target(1.0, 1.4)],
    "linear": [Target(1.2, 1.8), Target(1.2, 2.0), Target(1.0, 2.0), Target(1.1, 1.4)],
    "nearest": [Target(1.3, 2.5), Target(1.0, 1.2), Target(1.0, 1.1), Target(1.0, 1.3)],
    "cubic backward": [Target(8.0, 20.0)] * 4,
}


class ResizeCase(Case):
    """The last two axes of a float32 NCHW tensor, both by one factor; or the gradient of it."""

    def __init__(
        self,
        mode: str,
        shape: tuple[int, int, int, int],
        scale: float,
        target: Target | None = None,
        *,
        name: str = "",
        backward: bool = False,
    ) -> None:
        batch, channels, height, width = shape
        self.mode, self.scale, self.backward = mode, scale, backward
        self.input_shape = shape
        self.output_shape = (batch, channels, int(height * scale), int(width * scale))
        outputs, inputs = int(np.prod(self.output_shape)), int(np.prod(shape))
        between = batch * channels * height * self.output_shape[3]  # after the horizontal pass
        super().__init__(
            op="resize",
            group=f"resize {mode}" + " backward" * backward,
            name=name or f"{'x'.join(map(str, shape))} x{scale:g}",
            shape=f"{'x'.join(map(str, shape))} x{scale:g}",
            target=target,
            flops=(2 * _TAPS[mode] - (mode != "nearest")) * (outputs + between),
            bytes=4 * (inputs + outputs),
            # Positions are float32 in every runtime: up to 3e-5 pixels off at a factor of 3.
            tolerance=2e-4 if backward else 5e-5,
        )

    @cached_property
    def inputs(self) -> Arrays:
        return {"x": arrays.normal(self.output_shape if self.backward else self.input_shape, 3)}

    @cached_property
    def expected(self) -> Sequence[np.ndarray]:
        rows, columns = (
            matrix(self.mode, self.input_shape[axis], self.output_shape[axis]) for axis in (2, 3)
        )
        x = self.inputs["x"].astype(np.float64)
        return [rows.T @ x @ columns] if self.backward else [rows @ x @ columns.T]


def matrix(mode: str, length: int, new_length: int) -> np.ndarray:
    """The resize of one axis as a matrix [new_length, length], in float64."""
    target = np.arange(new_length)
    if mode == "nearest":
        position = np.floor(target * length / new_length)
        taps, weights = [0], [np.ones(new_length)]
    else:
        position = (target + 0.5) * length / new_length - 0.5
        t = position - np.floor(position)
        if mode == "linear":
            taps, weights = [0, 1], [1 - t, t]
        else:
            taps, weights = [-1, 0, 1, 2], [_cubic(d) for d in (1 + t, t, 1 - t, 2 - t)]
    result = np.zeros((new_length, length))
    for tap, weight in zip(taps, weights, strict=True):
        source = np.clip(np.floor(position).astype(int) + tap, 0, length - 1)
        np.add.at(result, (target, source), weight)
    return result


def _cubic(distance: np.ndarray, a: float = -0.75) -> np.ndarray:
    """The kernel of Keys at distances from 0 to 2."""
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, far)


def cases() -> list[Case]:
    return [
        ResizeCase(
            group.split()[0], shape, scale, target, name=name, backward=group.endswith("backward")
        )
        for group, targets in TARGETS.items()
        for (name, (shape, scale)), target in zip(SHAPES.items(), targets, strict=True)
    ]


def ours(case: ResizeCase, threads: int) -> Iterator[Candidate]:
    x = torch.from_numpy(case.inputs["x"])
    mode = TORCH_MODES[case.mode]
    call = myops.interpolate
    if case.backward:
        yield _backward(case, x)
        return
    yield Candidate(
        "myops.interpolate",
        lambda: call(x, scale_factor=case.scale, mode=mode),
        lambda out: [out.numpy()],
        "allocated",
        "torch",
    )
    # In both layouts, like the peers: OpenCV needs channels_last; torch is sometimes faster so.
    for label, layout in (("", torch.contiguous_format), (", channels_last", torch.channels_last)):
        image = x.contiguous(memory_format=layout)
        out = torch.from_numpy(arrays.empty(case.output_shape)).contiguous(memory_format=layout)
        yield Candidate(
            f"myops.interpolate, out={label}",
            partial(call, image, scale_factor=case.scale, mode=mode, out=out),
            lambda result: [result.numpy()],
            "given",
            "torch",
        )
    yield from ort_session.candidates(
        "myops::Resize",
        "onnxruntime",
        onnx_model(case, "myops"),
        case.inputs,
        arrays.empty(case.output_shape),
        threads,
    )


def _backward(case: ResizeCase, grad: torch.Tensor) -> Candidate:
    x = torch.zeros(case.input_shape, requires_grad=True)
    out = myops.interpolate(x, scale_factor=case.scale, mode=TORCH_MODES[case.mode])
    return Candidate(
        "myops.interpolate, autograd",
        lambda: torch.autograd.grad(out, x, grad, retain_graph=True),
        lambda grads: [grads[0].numpy()],
        "allocated",
        "torch",
    )


def onnx_model(case: ResizeCase, domain: str) -> bytes:
    """One Resize of the domain, ours or the standard's; they mean the same."""
    node = helper.make_node(
        "Resize",
        ["x", "", "scales"],
        ["y"],
        domain=domain,
        mode=case.mode,
        coordinate_transformation_mode=COORDINATES[case.mode],
        nearest_mode="floor",
        cubic_coeff_a=-0.75,
    )
    scales = np.array([1, 1, case.scale, case.scale], np.float32)
    return ort_session.model([node], case.inputs, {"scales": scales}, ["y"])
