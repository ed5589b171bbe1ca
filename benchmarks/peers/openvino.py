"""OpenVINO: the same one-node models, compiled for their shapes."""

from __future__ import annotations

from collections.abc import Iterator

import openvino as ov
from openvino import properties
from openvino.properties import hint

from benchmarks import arrays
from benchmarks.case import Arrays, Candidate, Case
from benchmarks.cases import deform_conv2d, resize
from benchmarks.cases.deform_conv2d import DeformCase
from benchmarks.cases.resize import ResizeCase

NAME = "OpenVINO"


def candidates(case: Case, threads: int) -> Iterator[Candidate]:
    if isinstance(case, ResizeCase) and not case.backward:
        yield _bound(
            "OpenVINO Resize", resize.onnx_model(case, ""), case.inputs, case.output_shape, threads
        )
    elif isinstance(case, DeformCase) and not case.backward:
        model, inputs = deform_conv2d.onnx_model(case, "")
        yield _bound("OpenVINO DeformConv", model, inputs, case.output_shape, threads)


def _bound(
    name: str, model: bytes, inputs: Arrays, shape: tuple[int, ...], threads: int
) -> Candidate:
    core = ov.Core()
    compiled = core.compile_model(
        core.read_model(model, b""),
        "CPU",
        {
            hint.performance_mode(): hint.PerformanceMode.LATENCY,
            hint.inference_precision(): ov.Type.f32,
            properties.inference_num_threads(): threads,
        },
    )
    request = compiled.create_infer_request()
    for key, array in inputs.items():
        request.set_tensor(key, ov.Tensor(array, shared_memory=True))
    out = arrays.empty(shape)
    request.set_output_tensor(ov.Tensor(out, shared_memory=True))
    return Candidate(f"{name}, bound", request.infer, lambda _: [out], "given")
