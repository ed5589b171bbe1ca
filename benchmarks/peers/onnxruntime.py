"""ONNX Runtime's own kernels for the standard ops."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from onnx import helper

from benchmarks import arrays, ort_session
from benchmarks.case import Candidate, Case
from benchmarks.cases import deform_conv2d, my_add, resize
from benchmarks.cases.deform_conv2d import DeformCase
from benchmarks.cases.my_add import MyAddCase
from benchmarks.cases.resize import ResizeCase

NAME = "ONNX Runtime"


def candidates(case: Case, threads: int) -> Iterator[Candidate]:
    if isinstance(case, MyAddCase):
        yield from ort_session.candidates(
            "ORT Add+Add",
            "peer",
            my_add.onnx_model(case, _two_adds),
            case.inputs,
            arrays.empty([case.count]),
            threads,
        )
    elif isinstance(case, ResizeCase) and not case.backward:
        yield from ort_session.candidates(
            "ORT Resize",
            "peer",
            resize.onnx_model(case, ""),
            case.inputs,
            arrays.empty(case.output_shape),
            threads,
            allocated=case.mode != "cubic",  # slow, so it is computed once
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


def _two_adds(a: str, b: str, c: str) -> list[onnx.NodeProto]:
    """(a + b) + a: as fast as 2a and a sum, which in a chain would be doubled only once."""
    half = f"{c}_half"
    return [helper.make_node("Add", [a, b], [half]), helper.make_node("Add", [half, a], [c])]
