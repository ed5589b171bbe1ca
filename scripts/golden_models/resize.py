"""Golden models of resize."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from onnx.reference import ReferenceEvaluator
from runtimes import feeds, node_model, random_array

import myops
from golden_models import Layer, Net, Node


def expected(inputs: list[Any], attributes: dict[str, Any]) -> np.ndarray:
    exact = [None if item is None else item.copy() for item in inputs]
    exact[0] = exact[0].astype(np.float64)
    model = node_model("resize", exact, attributes)
    model.graph.node[0].domain = ""
    return ReferenceEvaluator(model).run(None, feeds("resize", exact))[0]


def nodes(rng: np.random.Generator) -> Iterator[Node]:
    picture = random_array(rng, (1, 2, 5, 7), "float32")
    roi = np.float32([0.1, -0.2, 0.8, 1.1])
    crop = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.5}
    shrink = {"mode": "cubic", "antialias": True, "cubic_coeff_a": -0.5, "exclude_outside": True}
    scales, sizes = np.float32([1.7, 2.3]), np.int64([9, 4])
    for name, given, attributes in (
        ("nearest", [None, scales, None], {"mode": "nearest", "nearest_mode": "floor"}),
        ("linear", [None, scales, None], {"mode": "linear"}),
        ("cubic", [None, None, sizes], {"mode": "cubic"}),
        ("antialias", [None, None, np.int64([3, 4])], shrink),
        ("crop", [roi, None, sizes], {"mode": "linear", **crop}),
        ("corners", [None, None, sizes], {"mode": "linear",
                                          "coordinate_transformation_mode": "align_corners"}),
        ("ratio", [None, None, np.int64([11, 9])], {"mode": "linear",
                                                    "keep_aspect_ratio_policy": "not_larger"}),
    ):  # fmt: skip
        attributes = {"axes": [2, 3], **attributes}
        for dtype in ("float16", "float32", "float64") if name == "linear" else ("float32",):
            inputs = [picture.astype(dtype), *given]
            yield Node(
                f"resize_{name}_{dtype}", "resize", inputs, attributes,
                expected(inputs, attributes), dtype, every_version=name == "cubic",
            )  # fmt: skip
    pixels = rng.integers(0, 256, (1, 3, 6, 5), dtype=np.uint8)
    attributes = {"mode": "nearest", "axes": [2, 3], "nearest_mode": "floor",
                  "coordinate_transformation_mode": "asymmetric"}  # fmt: skip
    inputs = [pixels, None, np.float32([2, 3]), None]
    wanted = np.repeat(np.repeat(pixels, 2, axis=2), 3, axis=3)
    yield Node("resize_nearest_uint8", "resize", inputs, attributes, wanted, "uint8")


class Enlarge(Layer):
    def __init__(self, mode: str) -> None:
        super().__init__(ours)
        self.mode = mode

    def forward(self, x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        return self.op(self.convolution(x), factor, self.mode)


def ours(x: torch.Tensor, factor: torch.Tensor, mode: str) -> torch.Tensor:
    return myops.interpolate(x, scale_factor=factor, mode=mode)


def exact(x: torch.Tensor, factor: torch.Tensor, mode: str) -> torch.Tensor:
    corners = None if mode == "nearest" else False
    scale = tuple(float(value) for value in factor)
    return torch.nn.functional.interpolate(x, scale_factor=scale, mode=mode, align_corners=corners)


def nets() -> dict[str, Net]:
    inputs = {"x": torch.randn(2, 3, 6, 5), "factor": torch.tensor([1.5, 2.5])}
    return {
        f"enlarge_{mode}": Net(Enlarge(mode), exact, inputs, lowest)
        for mode, lowest in (("nearest", 9), ("bicubic", 11))
    }
