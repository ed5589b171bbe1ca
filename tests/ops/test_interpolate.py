"""interpolate against torch.nn.functional.interpolate, and with tensors for size and factor."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import onnx
import pytest
import torch
import torch.nn.functional as F

import myops
import myops.onnx
import myops.ort

LIST_OF_MODES = [
    ("nearest", 3, None),
    ("nearest", 4, None),
    ("nearest", 5, None),
    ("nearest-exact", 3, None),
    ("nearest-exact", 4, None),
    ("nearest-exact", 5, None),
    ("linear", 3, False),
    ("linear", 3, True),
    ("bilinear", 4, False),
    ("bilinear", 4, True),
    ("bicubic", 4, False),
    ("bicubic", 4, True),
    ("trilinear", 5, False),
    ("trilinear", 5, True),
    ("area", 3, None),
    ("area", 4, None),
    ("area", 5, None),
]
FACTORS = [0.4, 0.5, 1.0, 5 / 3, 2.0, 2.3, 7 / 3, 3.0]
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12, torch.float16: 2e-3, torch.bfloat16: 2e-2}


def sample(rank: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    lengths = {3: (2, 3, 27), 4: (2, 3, 13, 10), 5: (2, 2, 5, 7, 6)}[rank]
    return torch.randn(lengths).to(dtype)


def assert_like_torch(actual: torch.Tensor, expected: torch.Tensor, mode: str) -> None:
    tolerance = 0 if mode.startswith("nearest") else TOLERANCE[expected.dtype]
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("mode", "rank", "align_corners"), LIST_OF_MODES)
def test_factors_equal_torch(mode: str, rank: int, align_corners: bool | None) -> None:
    x = sample(rank)
    for factor, recompute in itertools.product(FACTORS, (None, True)):
        options: dict[str, Any] = {"mode": mode, "align_corners": align_corners}
        options["recompute_scale_factor"] = recompute
        expected = F.interpolate(x, scale_factor=factor, **options)
        assert_like_torch(myops.interpolate(x, scale_factor=factor, **options), expected, mode)
        as_tensor = torch.tensor(factor, dtype=torch.float64)
        assert_like_torch(myops.interpolate(x, scale_factor=as_tensor, **options), expected, mode)


@pytest.mark.parametrize(("mode", "rank", "align_corners"), LIST_OF_MODES)
@pytest.mark.parametrize("lengths", [(1, 1, 1), (4, 31, 7), (13, 10, 19), (40, 3, 12)])
def test_sizes_equal_torch(
    mode: str, rank: int, align_corners: bool | None, lengths: tuple[int, ...]
) -> None:
    x, size = sample(rank), lengths[: rank - 2]
    expected = F.interpolate(x, size=size, mode=mode, align_corners=align_corners)
    for given in (size, torch.tensor(size)):
        result = myops.interpolate(x, size=given, mode=mode, align_corners=align_corners)
        assert_like_torch(result, expected, mode)


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_every_dtype_equals_torch(mode: str, dtype: torch.dtype) -> None:
    x = sample(4, dtype)
    expected = F.interpolate(x.double(), scale_factor=2.3, mode=mode)
    result = myops.interpolate(x, scale_factor=2.3, mode=mode)
    assert result.dtype == dtype
    tolerance = 0 if mode == "nearest" else TOLERANCE[dtype]
    torch.testing.assert_close(result.double(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_uint8_is_rounded_and_saturated(mode: str) -> None:
    x = torch.randint(0, 256, (1, 3, 11, 9), dtype=torch.uint8)
    exact = F.interpolate(x.double(), scale_factor=2.3, mode=mode)
    result = myops.interpolate(x, scale_factor=2.3, mode=mode)
    # A tie between two integers may fall either way in float32.
    assert (result.double() - exact.clamp(0, 255)).abs().max() <= (
        0 if mode == "nearest" else 0.501
    )
    if mode == "bicubic":
        assert exact.min() < 0, "the case must overshoot, or saturation is not tested"
        assert exact.max() > 255


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("align_corners", [False, True])
def test_antialias_equals_torch(mode: str, align_corners: bool) -> None:
    x = sample(4)
    for factor in (0.3, 0.5, 0.77, 1.0, 1.6):
        options = {"mode": mode, "antialias": True, "align_corners": align_corners}
        expected = F.interpolate(x, scale_factor=factor, **options)
        assert_like_torch(myops.interpolate(x, scale_factor=factor, **options), expected, mode)
    expected = F.interpolate(x, size=(5, 4), mode=mode, antialias=True)
    assert_like_torch(myops.interpolate(x, size=(5, 4), mode=mode, antialias=True), expected, mode)


def test_output_sizes_equal_torch_for_every_ratio() -> None:
    """floor(length * p / q) as torch computes it, for p, q <= 64 and every length to 512."""
    ratios = sorted({p / q for p in range(1, 65) for q in range(1, 65)})
    lengths = torch.arange(1, 513)
    for ratio in ratios:
        expected = torch.floor(lengths.double() * ratio).long()
        legal = expected > 0
        # 64 lengths at a time, each an axis.
        for some, wanted in zip(lengths[legal].split(64), expected[legal].split(64), strict=True):
            count = len(some)
            info = [some.tolist(), None, [count], None]
            values = [None, None, [ratio] * count]
            dims = myops._shape_rule.infer("resize", info, (), {"torch_arithmetic": True}, values)
            assert dims[0][1] == wanted.tolist(), ratio


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
def test_nearest_equals_torch_for_every_ratio(mode: str) -> None:
    x = torch.arange(512.0).reshape(1, 1, 512)
    for ratio in sorted({p / q for p in range(1, 65) for q in range(1, 65)}):
        expected = F.interpolate(x, scale_factor=ratio, mode=mode)
        assert torch.equal(myops.interpolate(x, scale_factor=ratio, mode=mode), expected), ratio
    for length in (1, 7, 49, 98, 490, 513, 1000):
        for start in (10, 31, 49, 128):
            part = x[..., :start]
            expected = F.interpolate(part, size=length, mode=mode)
            assert torch.equal(myops.interpolate(part, size=length, mode=mode), expected)


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic", "area"])
@pytest.mark.parametrize("tensor", [False, True])
def test_gradients_equal_torch(mode: str, tensor: bool) -> None:
    x = torch.randn(1, 2, 5, 4, dtype=torch.float64, requires_grad=True)
    for options in ({"antialias": True}, {}) if mode.startswith("bi") else ({},):
        factor = torch.tensor([1.7, 0.6], dtype=torch.float64) if tensor else (1.7, 0.6)

        def function(x: torch.Tensor, factor: Any = factor, options: Any = options) -> torch.Tensor:
            return myops.interpolate(x, scale_factor=factor, mode=mode, **options)

        assert torch.autograd.gradcheck(function, x)
        assert torch.autograd.gradgradcheck(function, x)
        ours = torch.autograd.grad(function(x).square().sum(), x)
        theirs = F.interpolate(x, scale_factor=(1.7, 0.6), mode=mode, **options)
        expected = torch.autograd.grad(theirs.square().sum(), x)
        torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-10)


def test_channels_last_stays_channels_last() -> None:
    x = sample(4)
    last = x.to(memory_format=torch.channels_last)
    for mode in ("nearest", "bilinear", "bicubic"):
        for factor in (0.6, 2.5):
            result = myops.interpolate(last, scale_factor=factor, mode=mode)
            assert result.is_contiguous(memory_format=torch.channels_last)
            expected = F.interpolate(x, scale_factor=factor, mode=mode)
            assert_like_torch(result, expected, mode)


def test_a_factor_of_one_changes_nothing() -> None:
    for mode, rank, align_corners in LIST_OF_MODES:
        x = sample(rank)
        result = myops.interpolate(x, scale_factor=1, mode=mode, align_corners=align_corners)
        torch.testing.assert_close(result, x, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "size and scale_factor: got 0 of them, expected exactly one"),
        ({"size": 4, "scale_factor": 2}, "size and scale_factor: got 2 of them"),
        ({"size": 4, "mode": "cubic"}, "mode: got 'cubic', expected one of"),
        ({"size": 4, "mode": "trilinear"}, 'input: got rank 4, expected 5 for "trilinear"'),
        ({"size": 4, "align_corners": True}, "align_corners: got True, expected None"),
        ({"size": (4, 4, 4)}, "size: got 3 entries, expected 2"),
        ({"size": torch.ones(3, dtype=torch.int64)}, "size: got a tensor of shape (3,)"),
        ({"size": 4, "antialias": True}, "antialias: got True"),
        ({"size": 4, "recompute_scale_factor": True}, "recompute_scale_factor: got True"),
        ({"size": 0}, "interpolate: size: got 0 on axis 2, expected at least 1"),
        (
            {"scale_factor": -1.0},
            "interpolate: scale_factor: got -1 on axis 2, expected a finite number above 0",
        ),
        ({"scale_factor": float("inf")}, "interpolate: scale_factor: got inf"),
        ({"scale_factor": torch.tensor(float("nan"))}, "interpolate: scale_factor: got nan"),
        ({"scale_factor": torch.tensor(2 + 1j)}, "scale_factor: got a tensor of torch.complex64"),
        ({"scale_factor": torch.tensor([True, True])}, "scale_factor: got a tensor of torch.bool"),
    ],
)
def test_wrong_arguments_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises((ValueError, RuntimeError, TypeError)) as info:
        myops.interpolate(sample(4), **options)
    assert text in str(info.value)


LENGTH = "interpolate: scale_factor: got an output length of "


@pytest.mark.parametrize("by_sizes", [{"mode": "area"}, {"recompute_scale_factor": True}], ids=str)
@pytest.mark.parametrize(
    ("factor", "number", "tensor"),
    [
        (math.nan, "got nan, expected a finite number above 0", "0 on axis 2, expected at least 1"),
        (math.inf, "got inf, expected a finite", "2199023255552 on axis 2, expected at most 2^40"),
        (-1.0, "got -1.0, expected a finite", "0 on axis 2, expected at least 1"),
        (0.0, "got 0.0, expected a finite", "0 on axis 2, expected at least 1"),
        (0.01, LENGTH + "0 on axis 2", "0 on axis 2, expected at least 1"),
        (1e300, LENGTH + "2199023255552 on", "2199023255552 on axis 2, expected at most 2^40"),
    ],
)
def test_factors_that_give_no_length_are_refused(
    by_sizes: dict[str, Any], factor: float, number: str, tensor: str
) -> None:
    """The text names the factor, also where the op gets sizes that were computed from it."""
    tensors = torch.tensor([factor, 1.0], dtype=torch.float64)
    for given, text in ((factor, number), ((factor, 1), number), (tensors, LENGTH + tensor)):
        with pytest.raises(RuntimeError) as info:
            myops.interpolate(sample(4), scale_factor=given, **by_sizes)
        assert text in str(info.value)
        assert str(info.value).startswith("interpolate: scale_factor: ")


class Upscale(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 3, 3, padding=1)

    @staticmethod
    def upscale(x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        return myops.interpolate(x, scale_factor=factor, mode="bicubic")

    def forward(self, x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        return self.conv(self.upscale(x, factor))


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_calls_equal_eager_calls(dynamic: bool) -> None:
    torch._dynamo.reset()

    def model(x: torch.Tensor) -> torch.Tensor:
        return myops.interpolate(x, scale_factor=7 / 3, mode="bicubic").relu()

    compiled = torch.compile(model, fullgraph=True, dynamic=dynamic)
    for lengths in ((2, 3, 13, 10), (1, 3, 27, 12)):
        x = torch.randn(lengths, requires_grad=True)
        result = compiled(x)
        torch.testing.assert_close(result, model(x), rtol=1e-6, atol=1e-6)
        gradient = torch.autograd.grad(result.sum(), x)
        torch.testing.assert_close(gradient, torch.autograd.grad(model(x).sum(), x))


@pytest.mark.parametrize("backend", ["inductor", "aot_eager"])
def test_compile_with_a_tensor_factor(backend: str) -> None:
    torch._dynamo.reset()
    # Inductor of torch 2.13 misjudges the strides of a convolution over any run-time size.
    model = Upscale() if backend == "aot_eager" else Upscale.upscale
    compiled = torch.compile(model, fullgraph=True, backend=backend)
    for factor in (2.0, 3.0, 2.5):
        x = sample(4)
        given = torch.tensor(factor)
        torch.testing.assert_close(compiled(x, given), model(x, given), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("operator", ["batch_norm", "unfold", "branch"])
def test_exported_lengths_are_known_to_be_positive(operator: str) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
            y = Upscale.upscale(x, factor)
            if operator == "batch_norm":
                return torch.nn.functional.batch_norm(y, torch.zeros(3), torch.ones(3))
            if operator == "unfold":
                return torch.nn.functional.unfold(y, 3, padding=1)
            return y + 1 if y.shape[2] > 0 else y

    x = sample(4)
    length = torch.export.Dim("length", min=2)
    program = torch.export.export(
        Model(), (x, torch.tensor(2.0)), dynamic_shapes=({2: length}, None)
    ).module()
    for given in (x, x[:, :, :3]):
        factor = torch.tensor(2.5)
        torch.testing.assert_close(program(given, factor), Model()(given, factor))


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_plain_torch_onnx_export_keeps_the_factor(tmp_path: Any, exporter: str) -> None:
    model, x = Upscale().eval(), sample(4)
    file = str(tmp_path / "model.onnx")
    names = {"input_names": ["x", "factor"], "output_names": ["y"]}
    torch.onnx.export(
        model,
        (x, torch.tensor([2.0, 2.0])),
        file,
        dynamo=exporter == "dynamo",
        verbose=False,
        **names,
    )
    exported = onnx.load(file)
    assert [item.name for item in exported.graph.input] == ["x", "factor"]
    assert ("myops", "Resize") in {(node.domain, node.op_type) for node in exported.graph.node}
    session = myops.ort.session(file)
    for factor in ([2.0, 2.0], [3.0, 1.5], [7 / 3, 0.6]):
        given = torch.tensor(factor)
        (result,) = session.run(None, {"x": x.numpy(), "factor": given.numpy()})
        torch.testing.assert_close(
            torch.from_numpy(result), model(x, given).detach(), rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_new_interpolate_of_the_pytorch_tutorial_exports(tmp_path: Any, exporter: str) -> None:
    from myops import NewInterpolate

    class StrangeSuperResolutionNet(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv1 = torch.nn.Conv2d(3, 64, kernel_size=9, padding=4)

        def forward(self, x: torch.Tensor, upscale_factor: torch.Tensor) -> torch.Tensor:
            x = NewInterpolate.apply(x, upscale_factor)
            return self.conv1(x)

    model, x = StrangeSuperResolutionNet(), torch.randn(1, 3, 20, 16)
    factor = torch.tensor([1, 1, 3, 3], dtype=torch.float)
    file = str(tmp_path / "srcnn3.onnx")
    with torch.no_grad():
        torch.onnx.export(
            model,
            (x, factor),
            file,
            opset_version=18 if exporter == "dynamo" else 11,
            input_names=["input", "factor"],
            output_names=["output"],
            dynamo=exporter == "dynamo",
        )
    session = myops.ort.session(file)
    four = torch.tensor([1.0, 1.0, 4.0, 4.0])
    (result,) = session.run(None, {"input": x.numpy(), "factor": four.numpy()})
    assert result.shape == (1, 64, 80, 64)
    torch.testing.assert_close(
        torch.from_numpy(result), model(x, four).detach(), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("mode", ["linear", "bicubic"])
def test_positions_in_long_rows_of_float64_are_exact(mode: str, align_corners: bool) -> None:
    """At positions just below an integer, which torch rounds to float32: 5542.9998 becomes 5543,
    and its result is off by up to 4e-4."""
    length, size = 7680, 14054
    x = torch.randn(length, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    shape, sizes = ((1, 1, length), size) if mode == "linear" else ((1, 1, 1, length), (1, size))
    y = myops.interpolate(x.reshape(shape), sizes, mode=mode, align_corners=align_corners).flatten()
    for output in range(size):
        place = (
            Fraction(output * (length - 1), size - 1) if align_corners
            else Fraction((2 * output + 1) * length, 2 * size) - Fraction(1, 2)
        )  # fmt: skip
        if mode == "linear":
            place = max(place, Fraction(0))
        start = math.floor(place)
        if np.floor(np.float32(float(place))) == start:
            continue
        t = place - start
        near = [float(x[min(max(start + k, 0), length - 1)]) for k in (-1, 0, 1, 2)]
        weights = (
            [0, 1 - t, t, 0] if mode == "linear" else [cubic(abs(t - k)) for k in (-1, 0, 1, 2)]
        )
        right = float(sum(Fraction(v) * w for v, w in zip(near, weights, strict=True)))
        assert abs(float(y[output]) - right) < 1e-10, output


def cubic(distance: Fraction) -> Fraction:
    """Keys' kernel with a = -3/4, as in torch."""
    a, d = Fraction(-3, 4), distance
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * (d**3 - 5 * d**2 + 8 * d - 4)


@pytest.mark.parametrize("settings", [{"mode": "area"}, {"recompute_scale_factor": True}])
@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_exported_file_computes_lengths_in_float64(
    exporter: str, settings: dict[str, Any]
) -> None:
    """At random lengths and factors: in float32 some products reach the next integer."""

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
            return myops.interpolate(x, scale_factor=factor, **settings)

    example = (torch.rand(1, 1, 8, 9), torch.tensor([2.0, 3.0]))
    exported = myops.onnx.export(
        Model(), example, exporter=exporter, input_names=["x", "factor"],
        dynamic_axes={"x": {2: "height", 3: "width"}},
    )  # fmt: skip
    session = myops.ort.session(exported)
    random = np.random.default_rng(92031)
    for _ in range(60):
        x = torch.rand(1, 1, *random.integers(4, 50, 2).tolist())
        factor = torch.from_numpy(random.integers(3, 30, 2).astype(np.float32) / 10)
        (result,) = session.run(None, {"x": x.numpy(), "factor": factor.numpy()})
        assert torch.equal(torch.from_numpy(result), Model()(x, factor)), (x.shape, factor)
