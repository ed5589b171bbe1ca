"""docs/ops.md, "How close to other implementations": on random shapes and factors."""

from __future__ import annotations

import math
import os
from fractions import Fraction
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper
from runtimes import run_numpy
from torch.nn.functional import interpolate

import myops

COUNT = int(os.environ.get("MYOPS_RESIZE_SAMPLES", "300"))  # docs/ops.md: 6000
LAST = torch.channels_last


def lengths(rng: np.random.Generator, least: int, most: int) -> list[int]:
    return rng.integers(least, most, 2).tolist()


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
def test_nearest_is_that_of_torchs_contiguous_kernel(mode: str) -> None:
    """In either layout. (torch's kernel for channels_last takes other elements now and then.)"""
    rng = np.random.default_rng(0)
    torch_differs = 0
    for _ in range(COUNT):
        height, width = lengths(rng, 1, 70)
        channels = int(rng.choice([1, 2, 3, 4, 8, 16, 33]))
        dtype = getattr(torch, str(rng.choice(["float16", "float32", "float64", "uint8"])))
        size: dict[str, Any] = {"size": lengths(rng, 1, 150)}
        if rng.random() < 0.6:
            factor = float(rng.uniform(0.1, 4)) if rng.random() < 0.5 else Fraction(
                *rng.integers(1, 65, 2).tolist()
            )  # fmt: skip
            if min(height, width) * factor < 1:
                continue
            size = {"scale_factor": float(factor)}
        x = torch.arange(channels * height * width).reshape(1, channels, height, width) % 251
        x = x.to(dtype)
        wanted = interpolate(x, mode=mode, **size)
        for layout in (x, x.contiguous(memory_format=LAST)):
            assert torch.equal(myops.interpolate(layout, mode=mode, **size), wanted), (
                x.shape,
                size,
            )
        theirs = interpolate(x.contiguous(memory_format=LAST), mode=mode, **size)
        torch_differs += not torch.equal(theirs, wanted)
    assert torch_differs <= COUNT // 20


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [False, True])
def test_uint8_is_float64_rounded_once(mode: str, antialias: bool) -> None:
    """Within one level of it, and where it is one, float64 lies beside a half. torch rounds, and
    cuts off what is below 0 or above 255, after each of two axes."""
    rng = np.random.default_rng(0)
    torch_worst = 0.0
    for _ in range(COUNT // 4):
        options: dict[str, Any] = {"mode": mode, "antialias": antialias}
        options["size"] = lengths(rng, 1, 120)
        if antialias and options["size"][1] == 1:
            continue  # torch's own results are wrong: see below
        shape = [1, int(rng.choice([1, 3, 4])), *lengths(rng, 1, 60)]
        x = torch.from_numpy(rng.integers(0, 256, shape, dtype=np.uint8))
        if rng.random() < 0.5:
            x = x.contiguous(memory_format=LAST)
        exact = interpolate(x.double(), **options).clamp(0, 255)
        ours = myops.interpolate(x, **options).double()
        assert float((ours - exact).abs().max()) < 0.502
        torch_worst = max(torch_worst, float((interpolate(x, **options) - exact).abs().max()))
    assert torch_worst < (1.6 if mode == "bilinear" else 64)
    assert mode == "bilinear" or torch_worst > 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_antialias_of_a_column(dtype: torch.dtype) -> None:
    """A column is resized as it is in a picture of several. torch 2.13 and 2.15 repeat its first
    element instead: interpolate(x, size=[9, 1], mode="bicubic", antialias=True)."""
    rng = np.random.default_rng(0)
    for mode in ("bilinear", "bicubic"):
        for _ in range(20):
            height, size = (int(n) for n in rng.integers(2, 40, 2))
            x = torch.from_numpy(rng.standard_normal((1, 2, height, 1))).to(dtype)
            ours = myops.interpolate(x, size=[size, 1], mode=mode, antialias=True)
            options: dict[str, Any] = {"mode": mode, "antialias": True}
            wanted = interpolate(x.repeat(1, 1, 1, 3), size=[size, 3], **options)[..., :1]
            torch.testing.assert_close(ours, wanted, rtol=1e-5, atol=1e-5)


def factor_of(rng: np.random.Generator, length: int) -> tuple[np.float32, int]:
    """A factor, and what it makes of a length: at least 1, another one."""
    while True:
        factor = np.float32(Fraction(*rng.integers(1, 33, 2).tolist()))
        size = int(np.floor(np.float32(length * factor)))
        if size >= 1 and size != length:
            return factor, size


def resized(x: np.ndarray, factor: np.float32, **attributes: Any) -> np.ndarray:
    return run_numpy("resize", [x, None, np.float32([factor]), None], attributes)[0]


def test_half_pixel_symmetric_is_that_of_fractions() -> None:
    """onnx.reference is not: it takes the wrong neighbours where rounding crosses an element."""
    rng = np.random.default_rng(0)
    for _ in range(COUNT):
        length = int(rng.integers(1, 40))
        factor, size = factor_of(rng, length)
        x = rng.standard_normal(length).astype(np.float32)
        scale, wanted = Fraction(float(factor)), []
        for i in range(size):
            shift = Fraction(length, 2) * (1 - size / (scale * length))
            place = shift + (i + Fraction(1, 2)) / scale - Fraction(1, 2)
            left = math.floor(place)
            a, b = (float(x[min(max(k, 0), length - 1)]) for k in (left, left + 1))
            wanted.append(a + float(place - left) * (b - a))
        ours = resized(
            x, factor, mode="linear", coordinate_transformation_mode="half_pixel_symmetric"
        )
        np.testing.assert_allclose(ours, wanted, rtol=0, atol=5e-5)


@pytest.mark.parametrize("kind", ["half_pixel", "asymmetric"])
@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
def test_nearest_is_that_of_onnx_runtime(kind: str, rounding: str) -> None:
    """Ties within 1e-6 and all; where no length changes it copies, whatever the factor."""
    attributes = {
        "mode": "nearest",
        "coordinate_transformation_mode": kind,
        "nearest_mode": rounding,
    }
    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], **attributes)
    lists = {"x": TensorProto.FLOAT, "scales": TensorProto.FLOAT, "y": TensorProto.FLOAT}
    infos = [helper.make_tensor_value_info(name, kind, [name]) for name, kind in lists.items()]
    graph = helper.make_graph([node], "g", infos[:2], infos[2:])
    opsets = [helper.make_opsetid("", 19)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    onnx.checker.check_model(model)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    rng = np.random.default_rng(0)
    for _ in range(COUNT):
        length = int(rng.integers(1, 70))
        factor, _size = factor_of(rng, length)
        x = np.arange(length, dtype=np.float32)
        (wanted,) = session.run(None, {"x": x, "scales": np.float32([factor])})
        assert resized(x, factor, **attributes).tolist() == wanted.tolist(), (length, factor)
