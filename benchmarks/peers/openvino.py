"""OpenVINO: models of one node, compiled for their shapes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import openvino as ov
from openvino import opset8 as ops
from openvino import properties
from openvino.properties import hint

from benchmarks import arrays
from benchmarks.case import Arrays, Candidate, Case
from benchmarks.cases import resize
from benchmarks.cases.deform_conv2d import DeformCase
from benchmarks.cases.resize import ResizeCase

NAME = "OpenVINO"


def candidates(case: Case, threads: int) -> Iterator[Candidate]:
    core = ov.Core()
    if isinstance(case, ResizeCase) and not case.backward:
        model = core.read_model(resize.onnx_model(case, ""), b"")
        yield _bound("OpenVINO Resize", core, model, case.inputs, case.output_shape, threads)
    elif isinstance(case, DeformCase) and not case.backward:
        yield _bound(
            "OpenVINO DeformableConvolution",
            core,
            _deform_conv2d(case),
            {name: case.inputs[name] for name in ("X", "offset", "mask") if name in case.inputs},
            case.output_shape,
            threads,
        )


def _deform_conv2d(case: DeformCase) -> ov.Model:
    """Built by hand: the ONNX reader of OpenVINO does not support DeformConv."""
    weight, bias = (ops.constant(case.inputs[name]) for name in ("W", "B"))
    given = {}
    for name, array in case.inputs.items():
        if name not in ("W", "B"):
            given[name] = ops.parameter(array.shape, np.float32)
            given[name].set_friendly_name(name)
    result = ops.deformable_convolution(
        given["X"],
        given["offset"],
        weight,
        strides=[1, 1],
        pads_begin=[1, 1],
        pads_end=[1, 1],
        dilations=[1, 1],
        mask=given.get("mask"),
        group=case.problem.groups,
        deformable_group=case.problem.offset_groups,
        bilinear_interpolation_pad=True,
    )
    biased = ops.add(result, ops.reshape(bias, [1, -1, 1, 1], special_zero=False))
    return ov.Model([biased], list(given.values()), "deform_conv2d")


def _bound(
    name: str,
    core: ov.Core,
    model: ov.Model,
    inputs: Arrays,
    shape: tuple[int, ...],
    threads: int,
) -> Candidate:
    compiled = core.compile_model(
        model,
        "CPU",
        {
            hint.performance_mode(): hint.PerformanceMode.LATENCY,
            hint.inference_precision(): ov.Type.f32,
            properties.inference_num_threads(): threads,
        },
    )
    request = compiled.create_infer_request()
    for parameter in model.get_parameters():
        array = inputs[parameter.get_friendly_name()]
        request.set_tensor(parameter.output(0), ov.Tensor(array, shared_memory=True))
    out = arrays.empty(shape)
    request.set_output_tensor(ov.Tensor(out, shared_memory=True))
    return Candidate(f"{name}, bound", request.infer, lambda _: [out], "given")
