"""interpolate in torch.compile, in torch.export and in both exporters to ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import torch

import myops
import myops.onnx
import myops.ort


def sample() -> torch.Tensor:
    return torch.randn(2, 3, 13, 10)


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
        x = sample()
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

    x = sample()
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
    model, x = Upscale().eval(), sample()
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
