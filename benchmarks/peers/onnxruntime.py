"""ONNX Runtime's own kernels for the standard ops."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from onnx import helper

from benchmarks import arrays, ort_session
from benchmarks.case import Candidate, Case
from benchmarks.cases import deform_conv2d, resize
from benchmarks.cases.deform_conv2d import DeformCase
from benchmarks.cases.my_add import MyAddCase
from benchmarks.cases.resize import ResizeCase

NAME = "ONNX Runtime"


def candidates(case: Case, threads: int) -> Iterator[Candidate]:
    if isinstance(case, MyAddCase):
        model = ort_session.model(
            [
                helper.make_node("Mul", ["a", "two"], ["doubled"]),
                helper.make_node("Add", ["doubled", "b"], ["y"]),
            ],
            case.inputs,
            {"two": np.array(2, np.float32)},
            ["y"],
        )
        yield from ort_session.candidates(
            "ORT Mul+Add", "peer", model, case.inputs, arrays.empty([case.count]), threads
        )
    elif isinstance(case, ResizeCase) and not case.backward:
        yield from ort_session.candidates(
            "ORT Resize",
            "peer",
            resize.onnx_model(case, ""),
            case.inputs,
            arrays.empty(case.output_shape),
            threads,
            allocated=case.mode != "cubic",  # slow; once is enough
        )
    elif isinstance(case, DeformCase) and not case.backward:
        yield from ort_session.candidates(
            "ORT DeformConv",
            "peer",
            *deform_conv2d.onnx_model(case, ""),
            arrays.empty(case.output_shape),
            threads,
            allocated=False,
        )
