"""torch.jit.script: every public function and layer compiles, gives the eager result, and survives
saving, loading and the TorchScript exporter."""

from __future__ import annotations

import io
import linecache
from typing import Any

import pytest
import torch
from torch import Tensor

import myops
import myops.nn
import myops.onnx
import myops.ort

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

X = {rank: torch.randn(2, 3, *[7, 8, 6][: rank - 2]) for rank in (3, 4, 5)}
MODES = [
    ("nearest", 3), ("nearest", 5), ("nearest-exact", 4), ("linear", 3), ("bilinear", 4),
    ("bicubic", 4), ("trilinear", 5), ("area", 4),
]  # fmt: skip
# How a program may write the size or the factor.
ARGUMENTS = [
    "size=9",
    "size=[9] * {count}",
    "size=torch.tensor([9] * {count})",
    "scale_factor=1.7",
    "scale_factor=2",
    "scale_factor=[1.7] * {count}",
    "scale_factor=torch.full([1], 1.7, dtype=torch.float64)",
    "scale_factor=1.7, recompute_scale_factor=True",
]


def reloaded(program: Any) -> Any:
    """`program` after torch.jit.save and torch.jit.load."""
    buffer = io.BytesIO()
    torch.jit.save(program, buffer)
    buffer.seek(0)
    return torch.jit.load(buffer)


def scripted(expression: str) -> tuple[Any, Any]:
    """A function of `x` that returns the expression: as it is, and scripted, saved and loaded."""
    source = f"def program(x: Tensor) -> Tensor:\n    return {expression}\n"
    names: dict[str, Any] = {"__name__": __name__, "torch": torch, "Tensor": Tensor, "myops": myops}
    exec(compile(source, expression, "exec"), names)
    # TorchScript reads the source of functions through this cache.
    linecache.cache[expression] = (len(source), None, source.splitlines(True), expression)
    return names["program"], reloaded(torch.jit.script(names["program"]))


@pytest.mark.parametrize("argument", ARGUMENTS)
@pytest.mark.parametrize(("mode", "rank"), MODES)
def test_interpolate_in_torchscript(mode: str, rank: int, argument: str) -> None:
    argument = argument.format(count=rank - 2)
    program, loaded = scripted(f"myops.interpolate(x, {argument}, mode={mode!r})")
    assert torch.equal(loaded(X[rank]), program(X[rank]))


@pytest.mark.parametrize("mode", ["linear", "bilinear", "trilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("align_corners", [None, False, True])
def test_interpolate_options_in_torchscript(
    mode: str, antialias: bool, align_corners: bool | None
) -> None:
    rank = {"linear": 3, "trilinear": 5}.get(mode, 4)
    if antialias and rank != 4:
        return
    program, loaded = scripted(
        f"myops.interpolate(x, scale_factor=0.6, mode={mode!r}, align_corners={align_corners}, "
        f"antialias={antialias})"
    )
    assert torch.equal(loaded(X[rank]), program(X[rank]))


@pytest.mark.parametrize(
    "call",
    [
        "myops.resize(x, [1, 1, 2, 3])",
        "myops.resize(x, [1.0, 1.0, 0.5, 1.3], mode='linear', antialias=True)",
        "myops.resize(x, sizes=[5, 9], axes=[2, -1], mode='cubic', cubic_coeff_a=-0.5)",
        "myops.resize(x, sizes=torch.tensor([5, 9]), axes=[2, 3], mode='linear')",
        "myops.resize(x, torch.tensor([2.0, 3.0]), axes=[2, 3], nearest_mode='ceil')",
        "myops.resize(x, sizes=[5, 9], axes=[2, 3], roi=[0.1, 0.2, 0.9, 1.1], mode='linear', "
        "coordinate_transformation_mode='tf_crop_and_resize', extrapolation_value=3.0)",
        "myops.resize(x, sizes=[9, 9], axes=[2, 3], keep_aspect_ratio_policy='not_larger')",
        "myops.resize(x, [1.0, 1.0, 1.5, 1.5], mode='cubic', exclude_outside=True)",
        "myops.NewInterpolate.apply(x, torch.tensor([1.0, 1.0, 1.5, 2.0]))",
        "myops.my_add(x, x)",
    ],
)
def test_other_functions_in_torchscript(call: str) -> None:
    program, loaded = scripted(call)
    assert torch.equal(loaded(X[4]), program(X[4]))


@pytest.mark.parametrize(
    "call",
    [
        "myops.interpolate(x, scale_factor=2.0, mode='bilinear', out=out)",
        "myops.resize(x, [1.0, 1.0, 2.0, 2.0], mode='linear', out=out)",
    ],
)
def test_out_in_torchscript(call: str) -> None:
    _, loaded = scripted(call.replace("out=out", "out=torch.zeros([2, 3, 14, 16])"))
    assert torch.equal(loaded(X[4]), myops.interpolate(X[4], scale_factor=2, mode="bilinear"))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("myops.interpolate(x, mode='bilinear')", "got 0 of them, expected exactly one"),
        ("myops.interpolate(x, 3, 2, mode='bilinear')", "got 2 of them, expected exactly one"),
        ("myops.interpolate(x, 3, mode='cubic')", "mode: got 'cubic', expected one of"),
        ("myops.interpolate(x, 3, mode='linear')", 'rank 4, expected 3 for "linear"'),
        ("myops.interpolate(x, [3, 3, 3], mode='bilinear')", "size: got"),
        ("myops.interpolate(x, 3, antialias=True)", "antialias: got True"),
        ("myops.interpolate(x, None, -1.5, mode='area')", "scale_factor: got -1.5, expected a fin"),
        ("myops.interpolate(x, None, [2.0, -.5], mode='area')", "scale_factor: got -0.5, expected"),
        ("myops.interpolate(x, None, 1e300, mode='area')", "2199023255552 on axis 2, expected at"),
        ("myops.interpolate(x, 3, align_corners=True)", "align_corners: got True"),
        ("myops.resize(x, [1.0, 1.0, -2.0, 2.0])", "scales: got"),
        ("myops.resize(x, [1, 1, 2, 2], [1, 1, 2, 2])", "got both, expected exactly one"),
    ],
)
def test_scripted_calls_are_refused_with_the_same_text(call: str, text: str) -> None:
    program, loaded = scripted(call)
    with pytest.raises((ValueError, RuntimeError), match=text):
        program(X[4])
    with pytest.raises(Exception, match=text):  # torch's own exception type of a scripted `raise`
        loaded(X[4])


LAYERS: dict[str, Any] = {
    "DeformConv2d": lambda: myops.nn.DeformConv2d(3, 4, (3, 2), stride=(2, 1), padding=1),
    "DeformConv2d without bias": lambda: myops.nn.DeformConv2d(3, 3, 3, groups=3, bias=False),
    "DeformConv2dPack": lambda: myops.nn.DeformConv2dPack(3, 6, 3, padding=1, deform_groups=3),
    "ModulatedDeformConv2dPack": lambda: myops.nn.ModulatedDeformConv2dPack(3, 4, 3, dilation=2),
}


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_layers_in_torchscript(make: Any) -> None:
    layer = make().eval()
    for parameter in layer.parameters():
        torch.nn.init.uniform_(parameter, -0.5, 0.5)
    arguments = [X[4]]
    if type(layer) is myops.nn.DeformConv2d:
        kernel, stride, padding = layer.kernel_size, layer.stride, layer.padding
        lengths = [(n + 2 * p - k) // s + 1 for n, p, k, s in
                   zip((7, 8), padding, kernel, stride, strict=True)]  # fmt: skip
        arguments.append(torch.randn(2, 2 * kernel[0] * kernel[1], *lengths))
    loaded = reloaded(torch.jit.script(layer))
    assert torch.equal(loaded(*arguments), layer(*arguments))
    # Gradients, too.
    loaded(*arguments).sum().backward()
    layer(*arguments).sum().backward()
    for ours, theirs in zip(layer.parameters(), loaded.parameters(), strict=True):
        assert torch.equal(ours.grad, theirs.grad)


class Network(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = myops.nn.ModulatedDeformConv2dPack(3, 4, 3, padding=1)

    def forward(self, x: Tensor, factor: Tensor) -> Tensor:
        x = myops.interpolate(x, scale_factor=1.5, mode="bilinear")
        x = myops.interpolate(x, scale_factor=factor, mode="nearest-exact")
        x = myops.resize(x, sizes=[9, 10], axes=[2, 3], mode="linear", antialias=True)
        return self.layer(x)


@pytest.mark.parametrize("target", ["myops", "onnx"])
def test_scripted_models_export(target: str) -> None:
    network = Network().eval()
    arguments = (torch.randn(1, 3, 6, 5), torch.tensor([1.5, 2.5]))
    model = myops.onnx.export(
        torch.jit.script(network), arguments, exporter="torchscript", target=target,
        input_names=["x", "factor"], dynamic_axes={"x": [0, 2, 3]},
    )  # fmt: skip
    session = myops.ort.session(model)
    for x, factor in [arguments, (torch.randn(2, 3, 8, 3), torch.tensor([2.0, 0.5]))]:
        (got,) = session.run(None, {"x": x.numpy(), "factor": factor.numpy()})
        torch.testing.assert_close(torch.from_numpy(got), network(x, factor), rtol=1e-5, atol=1e-5)


def test_groups_computed_from_the_input_are_refused() -> None:
    @torch.jit.script
    def program(x: Tensor, offset: Tensor, weight: Tensor) -> Tensor:
        return myops.deform_conv2d(x, offset, weight)

    class Model(torch.nn.Module):
        def forward(self, x: Tensor, offset: Tensor, weight: Tensor) -> Tensor:
            return program(x, offset, weight)

    arguments = (torch.randn(1, 3, 5, 5), torch.randn(1, 18, 3, 3), torch.randn(2, 3, 3, 3))
    assert torch.equal(program(*arguments), myops.deform_conv2d(*arguments))
    with pytest.raises(ValueError, match="group: got a value that follows the length of an input"):
        myops.onnx.export(
            torch.jit.script(Model()), arguments, exporter="torchscript",
            input_names=["x", "offset", "weight"], dynamic_axes={"x": [1]},
        )  # fmt: skip
