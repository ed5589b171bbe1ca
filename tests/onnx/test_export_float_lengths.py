"""Floats made of lengths: in the file they are computed in float64, as in PyTorch.

In float32, 64 / 129 * 129 is less than 64. So every file is run at all lengths of a range.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
import torch

import myops
import myops.ort
from myops.onnx import export

EXPORTERS = ["dynamo", "torchscript"]
LENGTHS = [(h, (7 * h) % 31 + 3) for h in range(3, 150)]

Way = Callable[[torch.Tensor], torch.Tensor]


class Model(torch.nn.Module):
    def __init__(self, way: Way) -> None:
        super().__init__()
        self.way = way

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.way(image)


def _by(mode: str = "bilinear", **given: Any) -> Callable[[Callable[..., Any]], Way]:
    def way(factor: Callable[[Any, Any], Any]) -> Way:
        return lambda x: myops.interpolate(x, scale_factor=factor(*x.shape[2:]), mode=mode, **given)

    return way


FACTORS: dict[str, Callable[[Any, Any], Any]] = {
    "quotient": lambda h, w: 64 / h,
    "not a power of two": lambda h, w: 49 / h,
    "two": lambda h, w: (100 / h, 1.3 * h / w),
    "sum": lambda h, w: (30 / h + 0.1, 2 - 1.7 / w),
    "whole inside": lambda h, w: (32 * (h // 3 + 1) / h, (w + 7) / w),
    "only one": lambda h, w: (1.3, 90 / w),
}
WAYS: dict[str, Way] = {
    **{name: _by()(factor) for name, factor in FACTORS.items()},
    "nearest": _by("nearest")(FACTORS["two"]),
    "by scales": lambda x: myops.resize(x, [1, 1, 64 / x.shape[2], 1.3], mode="linear"),
    "by scales of axes": lambda x: myops.resize(
        x, [64 / x.shape[2], 1.3 * x.shape[2] / x.shape[3]], mode="linear", axes=[2, 3]
    ),
}
# Here the output lengths themselves are made of floats. A trace has no such numbers as integers,
# and torch.export needs to know that a length is not 1.
SIZES: dict[str, Way] = {
    "area": _by("area")(lambda h, w: 1.3),
    "recomputed": _by("bilinear", recompute_scale_factor=True)(lambda h, w: (1.7, 2.1)),
    "area by quotients": _by("area")(lambda h, w: (1 + 64 / h, 1.1 + h / w)),
}
DYNAMO_ONLY: dict[str, Way] = {
    "floor": lambda x: myops.interpolate(
        x, size=(math.floor(x.shape[2] * 1.1), math.trunc(x.shape[3] / 0.7))
    ),
    "ceil": lambda x: myops.interpolate(
        x, size=(math.ceil(x.shape[2] * 1.1), math.ceil(x.shape[3] / 0.7))
    ),
    "torch's own": lambda x: torch.nn.functional.interpolate(
        x, size=(math.floor(x.shape[2] * 1.1), math.trunc(x.shape[3] * 1.7)), mode="bilinear"
    ),
}


def exported(way: Way, exporter: str, **settings: Any) -> onnx.ModelProto:
    return export(
        Model(way), (torch.rand(1, 1, 32, 48),), exporter=exporter,
        dynamic_axes={"image": {2: "h", 3: "w"}}, **settings,
    )  # fmt: skip


def compare(way: Way, model: onnx.ModelProto, *, equal: bool = True) -> None:
    session = myops.ort.session(model.SerializeToString())
    for h, w in LENGTHS:
        image = torch.rand(1, 1, h, w)
        wanted = way(image).numpy()
        (got,) = session.run(None, {"image": image.numpy()})
        assert got.shape == wanted.shape, (h, w)
        assert not equal or np.array_equal(got, wanted), (h, w)


CASES = [(name, way, exporter) for name, way in {**WAYS, **SIZES}.items() for exporter in EXPORTERS]
CASES += [(name, way, "dynamo") for name, way in DYNAMO_ONLY.items()]


@pytest.mark.parametrize(
    ("way", "exporter"), [case[1:] for case in CASES], ids=[f"{n}, {e}" for n, _, e in CASES]
)
def test_lengths_are_those_of_pytorch(way: Way, exporter: str) -> None:
    compare(way, exported(way, exporter), equal=way is not DYNAMO_ONLY["torch's own"])


def test_without_the_optimizer() -> None:
    way = WAYS["two"]
    compare(way, exported(way, "dynamo", optimize=False))


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_a_factor_that_pytorch_has_in_float32_stays_in_float32(exporter: str) -> None:
    def way(x: torch.Tensor) -> torch.Tensor:
        return myops.interpolate(x, scale_factor=torch.tensor(64 / x.shape[2]), mode="bilinear")

    compare(way, exported(way, exporter))


def test_a_number_of_a_float64_model() -> None:
    class Double(torch.nn.Module):
        def forward(self, image: torch.Tensor) -> torch.Tensor:
            return image * (1 / image.shape[2]) + 0.1 * image.shape[3]

    model = export(
        Double(), (torch.rand(1, 1, 32, 48, dtype=torch.float64),), exporter="dynamo",
        dynamic_axes={"image": {2: "h", 3: "w"}},
    )  # fmt: skip
    session = myops.ort.session(model.SerializeToString())
    for h, w in LENGTHS[:40]:
        image = torch.rand(1, 1, h, w, dtype=torch.float64)
        (got,) = session.run(None, {"image": image.numpy()})
        np.testing.assert_allclose(got, Double()(image).numpy(), rtol=1e-14)
