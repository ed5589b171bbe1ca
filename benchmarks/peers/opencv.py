"""OpenCV: cv2.resize of an HWC image, and of the channels one by one. Its cubic has a = -0.75."""

from __future__ import annotations

from collections.abc import Iterator

import cv2
import numpy as np

from benchmarks.case import Candidate, Case
from benchmarks.cases.resize import ResizeCase

NAME = "OpenCV"
MODES = {
    "cubic": cv2.INTER_CUBIC,
    "linear": cv2.INTER_LINEAR,
    "nearest": cv2.INTER_NEAREST,  # asymmetric, floor
}


def candidates(case: Case, threads: int) -> Iterator[Candidate]:
    if not isinstance(case, ResizeCase) or case.backward or case.input_shape[0] != 1:
        return
    cv2.setNumThreads(threads)
    height, width = case.output_shape[2:]
    size, how, resize = (width, height), MODES[case.mode], cv2.resize
    image = np.ascontiguousarray(case.inputs["x"][0].transpose(1, 2, 0))
    image_out = np.zeros((height, width, case.input_shape[1]), np.float32)
    yield Candidate(
        "cv2.resize HWC, dst=",
        lambda: resize(image, size, dst=image_out, interpolation=how),
        lambda result: [result.transpose(2, 0, 1)[None]],
        "given",
    )
    yield Candidate(
        "cv2.resize HWC",
        lambda: resize(image, size, interpolation=how),
        lambda result: [result.transpose(2, 0, 1)[None]],
        "allocated",
    )
    planes_out = np.zeros(case.output_shape, np.float32)
    pairs = list(zip(case.inputs["x"][0], planes_out[0], strict=True))

    def planes() -> np.ndarray:
        for plane, out in pairs:
            resize(plane, size, dst=out, interpolation=how)
        return planes_out

    yield Candidate("cv2.resize planes, dst=", planes, lambda result: [result], "given")
