"""resize, random calls of the standard's operator: beside onnx's reference, and beside a second
statement of the rules, in NumPy."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator
from runtimes import assert_parity, feeds, node_model, random_array, run_numpy
from test_resize import COORDINATES, DTYPES, MODES, NEAREST

Inputs = list[np.ndarray | None]
F32 = np.float32
TIE = 1e-6  # "nearest": a coordinate this close to the middle between two elements is a tie


def random_case(rng: np.random.Generator) -> tuple[Inputs, dict[str, Any]]:
    rank = int(rng.integers(1, 5))
    shape = rng.integers(1, 8, rank)
    count = int(rng.integers(1, rank + 1))
    axes = rng.permutation(rank)[:count]
    mode = MODES[rng.integers(3)]
    attributes: dict[str, Any] = {
        "mode": mode,
        "axes": [int(axis) - (rank if rng.random() < 0.3 else 0) for axis in axes],
        "coordinate_transformation_mode": COORDINATES[rng.integers(6)],
    }
    if mode == "nearest":
        attributes["nearest_mode"] = NEAREST[rng.integers(4)]
    if mode == "cubic":
        attributes["cubic_coeff_a"] = float(rng.choice([-0.5, -0.75]))
        attributes["exclude_outside"] = bool(rng.random() < 0.5)
    roi = None
    if attributes["coordinate_transformation_mode"] == "tf_crop_and_resize":
        starts, ends = rng.uniform(-0.2, 0.4, count), rng.uniform(0.6, 1.3, count)
        roi = np.concatenate([starts, ends]).astype(np.float32)
        attributes["extrapolation_value"] = 7.5
    scales = sizes = None
    if rng.random() < 0.5:
        scales = rng.uniform(0.3, 3.2, count).astype(np.float32)
        extent = np.ones(count) if roi is None else roi[count:] - roi[:count]
        scales = np.maximum(scales, (1.02 / (shape[axes] * extent)).astype(np.float32))
    else:
        sizes = rng.integers(1, 15, count)
        if roi is None:
            policies = ["stretch", "not_larger", "not_smaller"]
            attributes["keep_aspect_ratio_policy"] = policies[rng.integers(3)]
    x = random_array(rng, shape, "float32")
    return [x, roi, scales, sizes], attributes


class Axis(NamedTuple):
    number: int
    input: int
    output: int
    scale: np.float32
    roi: tuple[Any, Any]


def axes_of(inputs: Inputs, attributes: dict[str, Any]) -> list[Axis]:
    """The listed axes, each with its output length and its scale, as Resize-19 defines them."""
    x, roi, scales, sizes = inputs
    assert x is not None
    numbers = [axis % x.ndim for axis in attributes["axes"]]
    lengths = [x.shape[number] for number in numbers]
    if scales is not None:
        outputs = [int(F32(n) * F32(s)) for n, s in zip(lengths, scales, strict=True)]
        factors = [F32(s) for s in scales]
    else:
        assert sizes is not None
        outputs = [int(size) for size in sizes]
        factors = [F32(size) / F32(n) for n, size in zip(lengths, sizes, strict=True)]
        policy = attributes.get("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            common = min(factors) if policy == "not_larger" else max(factors)
            outputs = [int(np.floor(F32(n) * common + F32(0.5))) for n in lengths]
            factors = [common] * len(lengths)
    rois = [(F32(0), F32(1))] * len(numbers)
    if roi is not None:
        rois = [(F32(a), F32(b)) for a, b in zip(*np.split(roi, 2), strict=True)]
    return [Axis(*each) for each in zip(numbers, lengths, outputs, factors, rois, strict=True)]


def coordinates_of(axis: Axis, kind: str, real: Any = np.float32) -> np.ndarray:
    """Where each output lies on the input's axis; every operation is rounded to `real`."""
    n, m, scale = real(axis.input), real(axis.output), real(axis.scale)
    start, end = map(real, axis.roi)
    o = np.arange(axis.output).astype(real)
    half = (o + real(0.5)) / scale - real(0.5)
    if kind == "half_pixel":
        return half
    if kind == "half_pixel_symmetric":
        offset = n / 2 * (1 - m / (scale * n))
        wide = offset.astype(np.float64) + (o.astype(np.float64) + 0.5) / scale - 0.5
        return wide.astype(real)  # (ONNX Runtime computes this sum in double)
    if kind == "pytorch_half_pixel":
        return half if axis.output > 1 else np.zeros_like(o)
    if kind == "align_corners":
        return o * (n - 1) / (m - 1) if axis.output > 1 else np.zeros_like(o)
    if kind == "asymmetric":
        return o / scale
    assert kind == "tf_crop_and_resize"
    if axis.output > 1:
        return start * (n - 1) + o * (end - start) * (n - 1) / (m - 1)
    return np.full_like(o, 0.5 * (float(start) + float(end)) * (axis.input - 1))


def nearest_of(x: np.ndarray, rounding: str) -> np.ndarray:
    """The elements that "nearest" selects."""
    below = np.floor(x)
    rest = x - below
    tie = np.abs(rest - F32(0.5)) <= F32(TIE)
    up = {
        "floor": np.zeros_like(tie),
        "ceil": rest > 0,
        "round_prefer_floor": (rest > 0.5) & ~tie,
        "round_prefer_ceil": (rest > 0.5) | tie,
    }[rounding]
    return below.astype(np.int64) + up


def weights_of(x: np.ndarray, length: int, attributes: dict[str, Any]) -> np.ndarray:
    """The matrix [output, input] of an axis in float64, for coordinates in float32."""
    mode = attributes["mode"]
    if mode == "nearest":
        index, weight = nearest_of(x, attributes["nearest_mode"])[:, None], np.ones((len(x), 1))
    else:
        left = np.floor(x).astype(np.int64)[:, None]
        taps = np.arange(2) if mode == "linear" else np.arange(-1, 3)
        index = left + taps
        distance = np.abs(index - x[:, None].astype(np.float64))
        if mode == "linear":
            weight = 1 - distance
        else:
            a = attributes["cubic_coeff_a"]
            near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
            far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
            weight = np.where(distance <= 1, near, far)
            if attributes["exclude_outside"]:
                weight[(index < 0) | (index >= length)] = 0
                weight /= weight.sum(axis=1, keepdims=True)
    matrix = np.zeros((len(x), length))
    rows = np.broadcast_to(np.arange(len(x))[:, None], index.shape)
    np.add.at(matrix, (rows, np.clip(index, 0, length - 1)), weight)
    return matrix


def along(axis: Axis, values: np.ndarray, rank: int) -> np.ndarray:
    """The values of an axis' outputs, in a shape that broadcasts along the others."""
    return values.reshape([-1 if i == axis.number else 1 for i in range(rank)])


def by_rules(inputs: Inputs, attributes: dict[str, Any]) -> np.ndarray:
    """The call by matrices of weights, one for each axis. With "nearest" each row selects one
    element, so the product is exact."""
    x = inputs[0]
    assert x is not None
    kind = attributes["coordinate_transformation_mode"]
    result, outside = x.astype(np.float64), np.zeros((1,) * x.ndim, bool)
    for axis in axes_of(inputs, attributes):
        at = coordinates_of(axis, kind)
        matrix = weights_of(at, axis.input, attributes)
        result = np.moveaxis(np.tensordot(matrix, result, (1, axis.number)), 0, axis.number)
        if kind == "tf_crop_and_resize":
            beyond = (at < 0) | (at > axis.input - 1)
            outside = outside | along(axis, beyond, x.ndim)
    return np.where(outside, attributes.get("extrapolation_value", 0.0), result)


@pytest.mark.parametrize("seed", range(150))
def test_against_the_rules(seed: int) -> None:
    """All of the standard's calls. The elements that "nearest" selects are compared exactly."""
    inputs, attributes = random_case(np.random.default_rng(seed))
    (result,) = run_numpy("resize", inputs, attributes)
    expected = by_rules(inputs, attributes)
    assert result.shape == expected.shape
    if attributes["mode"] == "nearest":
        np.testing.assert_array_equal(result, expected.astype(np.float32))
    else:
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=2e-5)


def reference(inputs: Inputs, attributes: dict[str, Any]) -> np.ndarray:
    model = node_model("resize", inputs, attributes)
    model.graph.node[0].domain = ""
    (result,) = ReferenceEvaluator(model).run(None, feeds("resize", inputs))
    return result


def unlike_the_reference(axis: Axis, kind: str) -> bool:
    """Whether onnx's reference computes something else than the text of the standard: with
    "pytorch_half_pixel", a lone output is at coordinate 0 in the text. The reference has -0.5 where
    scale * length is exactly 1, and otherwise, as the output length that it looks at is not rounded
    down, the formula for longer outputs."""
    return kind == "pytorch_half_pixel" and axis.output == 1


def is_certain(axis: Axis, kind: str, rounding: str) -> np.ndarray:
    """The outputs for which float32 and float64 cannot select different elements."""
    x = coordinates_of(axis, kind, np.float64)
    jump = 0.5 if rounding.startswith("round") else 0.0
    distance = np.abs(x - jump - np.round(x - jump))
    return distance > 1e-5


@pytest.mark.parametrize("seed", range(150))
def test_against_the_onnx_reference(seed: int) -> None:
    inputs, attributes = random_case(np.random.default_rng(seed))
    (result,) = run_numpy("resize", inputs, attributes)
    kind, axes = attributes["coordinate_transformation_mode"], axes_of(inputs, attributes)
    attributes["axes"] = [axis.number for axis in axes]  # it knows no negative ones
    if kind in ("align_corners", "tf_crop_and_resize"):
        # The reference takes a fractional output length (see DISPUTED in test_resize.py). These
        # coordinates depend on lengths alone, so whole ones are passed.
        sizes = np.array([axis.output for axis in axes])
        attributes["keep_aspect_ratio_policy"] = "stretch"
        expected = reference([*inputs[:2], None, sizes], attributes)
    else:
        expected = reference(inputs, attributes)
    assert result.shape == expected.shape
    compared = np.ones((1,) * result.ndim, bool)
    for axis in axes:
        alike = np.full(axis.output, not unlike_the_reference(axis, kind))
        if attributes["mode"] == "nearest":
            alike &= is_certain(axis, kind, attributes["nearest_mode"])
        compared = compared & along(axis, alike, result.ndim)
    compared = np.broadcast_to(compared, result.shape)
    if attributes["mode"] == "nearest":
        np.testing.assert_array_equal(result[compared], expected[compared])
    else:
        np.testing.assert_allclose(result[compared], expected[compared], rtol=1e-3, atol=2e-5)


def test_the_reference_is_compared() -> None:
    """Most axes are compared as a whole; test_against_the_rules compares every element of all."""
    alike = every = 0
    for seed in range(150):
        inputs, attributes = random_case(np.random.default_rng(seed))
        kind = attributes["coordinate_transformation_mode"]
        for axis in axes_of(inputs, attributes):
            every += 1
            unsure = (
                attributes["mode"] == "nearest"
                and not is_certain(axis, kind, attributes["nearest_mode"]).all()
            )
            alike += not unsure and not unlike_the_reference(axis, kind)
    assert alike > 0.8 * every


def test_pytorch_half_pixel_looks_at_the_first_element_when_the_output_has_one() -> None:
    """Resize-19: `length_resized > 1 ? (x_resized + 0.5) / scale - 0.5 : 0`."""
    x = np.float32([3, 5, 8, 1])
    for mode in MODES:
        options = {"mode": mode, "coordinate_transformation_mode": "pytorch_half_pixel"}
        assert run_numpy("resize", [x, None, None, np.int64([1])], options)[0].tolist() == [3.0]
        assert run_numpy("resize", [x, None, np.float32([0.4]), None], options)[0].tolist() == [3.0]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", range(12))
def test_parity_over_random_cases(seed: int, dtype: str) -> None:
    rng = np.random.default_rng(1000 + seed)
    inputs, attributes = random_case(rng)
    inputs[0] = random_array(rng, inputs[0].shape, dtype)
    if rng.random() < 0.3 and inputs[2] is not None:
        inputs[2] = inputs[2].astype(np.float64)
    if rng.random() < 0.3:
        attributes["torch_arithmetic"] = True
    assert_parity("resize", inputs, attributes)
