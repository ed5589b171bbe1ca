"""Models that call torchvision's deform_conv2d are exported unchanged, and run by our kernel.

torchvision itself need not be installed: an op of the same name and schema stands in for it.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from typing import Any

import onnx
import onnxruntime
import pytest
import torch
from torch import Tensor
from torchvision_stand_in import NAME, calls, stand_in, vision_deform_conv2d

import myops
import myops.onnx
import myops.ort
from myops import patch_torchvision
from myops.onnx import register_torchvision


@pytest.fixture(scope="module", autouse=True)
def _op() -> Iterator[None]:
    with stand_in():
        register_torchvision()
        yield


class Model(torch.nn.Module):
    """Two layers that differ in every setting; the second has no bias."""

    def __init__(self, masked: bool = True) -> None:
        super().__init__()
        self.masked = masked
        # 3 x 2 taps, 3 offset groups: 36 offsets and 18 mask planes, on the grid of the result.
        self.moves = torch.nn.Conv2d(6, 54, (3, 2), (2, 1), (1, 0), (2, 1))
        self.weight = torch.nn.Parameter(torch.randn(4, 3, 3, 2) / 4)
        self.bias = torch.nn.Parameter(torch.randn(4))
        self.second_moves = torch.nn.Conv2d(4, 27, 3, padding=1)
        self.second_weight = torch.nn.Parameter(torch.randn(5, 4, 3, 3) / 6)

    def forward(self, x: Tensor) -> Tensor:
        offset, mask = self.moves(x).split([36, 18], 1)
        x = vision_deform_conv2d(x, offset, self.weight, self.bias, (2, 1), (1, 0), (2, 1),
                                 mask.sigmoid() if self.masked else None).relu()  # fmt: skip
        offset, mask = self.second_moves(x).split([18, 9], 1)
        return vision_deform_conv2d(x, offset * 3, self.second_weight, padding=(1, 1),
                                    mask=mask.sigmoid() if self.masked else None)  # fmt: skip


ATTRIBUTES = {
    "dilations": [2, 1], "group": 2, "offset_group": 3, "pads": [1, 0, 1, 0], "strides": [2, 1],
}  # fmt: skip


def settings(node: onnx.NodeProto) -> dict[str, Any]:
    found = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
    return {name: value for name, value in found.items() if value != []}


def nodes(model: onnx.ModelProto, kind: str = "DeformConv") -> list[onnx.NodeProto]:
    return [node for node in model.graph.node if node.op_type == kind]


@pytest.mark.parametrize(("target", "masked"), [("myops", True), ("onnx", True), ("myops", False)])
@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_model_exports_unchanged(tmp_path: Any, exporter: str, target: str, masked: bool) -> None:
    model, file = Model(masked).eval(), str(tmp_path / "model.onnx")
    axes = {"x": {0: "n", 2: "h", 3: "w"}}
    exported = myops.onnx.export(
        model, (torch.randn(2, 6, 12, 9),), file, dynamic_axes=axes, exporter=exporter,
        target=target,
    )  # fmt: skip
    first, second = nodes(exported)
    assert first.domain == second.domain == ("myops" if target == "myops" else "")
    assert settings(first) == ATTRIBUTES
    assert settings(second)["group"] == settings(second)["offset_group"] == 1
    assert len(first.input) == len(second.input) == (5 if masked else 4)
    x = torch.randn(3, 6, 15, 8)
    wanted = model(x).detach()
    sessions = [onnxruntime.InferenceSession(file)]
    if target == "myops":
        sessions.append(myops.ort.session(file))
    for session in sessions:
        (result,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
        torch.testing.assert_close(torch.from_numpy(result), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dynamo", [True, False])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_plain_torch_export_uses_the_registration(tmp_path: Any, dynamo: bool) -> None:
    file = str(tmp_path / "model.onnx")
    arguments = (torch.randn(1, 6, 12, 9),)
    torch.onnx.export(Model().eval(), arguments, file, dynamo=dynamo, opset_version=18,
                      verbose=False)  # fmt: skip
    assert [node.domain for node in nodes(onnx.load(file))] == ["myops", "myops"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_scripted_model_exports() -> None:
    @torch.jit.script
    def function(x: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor) -> Tensor:
        return torch.ops.torchvision.deform_conv2d(
            x, weight, offset, mask, bias, 2, 1, 1, 0, 2, 1, 2, 3, True
        )

    class Scripted(torch.nn.Module):
        def forward(self, x: Tensor, offset: Tensor, mask: Tensor) -> Tensor:
            return function(x, torch.ones(4, 3, 3, 2), offset, mask, torch.zeros(4))

    arguments = (torch.randn(1, 6, 8, 9), torch.randn(1, 36, 3, 8), torch.rand(1, 18, 3, 8))
    exported = myops.onnx.export(torch.jit.script(Scripted()), arguments, exporter="torchscript")
    assert settings(nodes(exported)[0]) == ATTRIBUTES
    wanted = Scripted()(*arguments).numpy()
    session = myops.ort.session(exported)
    feeds = {i.name: v.numpy() for i, v in zip(session.get_inputs(), arguments, strict=True)}
    torch.testing.assert_close(session.run(None, feeds)[0], wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_settings_must_be_constants() -> None:
    class Computed(torch.nn.Module):
        def forward(self, x: Tensor, weight: Tensor, offset: Tensor, stride: Tensor) -> Tensor:
            none = torch.zeros(1, 0)
            return torch.ops.torchvision.deform_conv2d(
                x, weight, offset, none, torch.zeros(2), int(stride), 1, 0, 0, 1, 1, 1, 1, False
            )

    scripted = torch.jit.script(Computed())
    arguments = (torch.randn(1, 2, 4, 4), torch.ones(2, 2, 1, 1), torch.zeros(1, 2, 4, 4),
                 torch.tensor(1))  # fmt: skip
    with pytest.raises(ValueError, match=f"{NAME}: stride_h: got a value that is computed"):
        myops.onnx.export(scripted, arguments, exporter="torchscript")


def example() -> list[Tensor]:
    shapes = [(2, 6, 7, 8), (4, 3, 3, 2), (2, 36, 3, 7), (2, 18, 3, 7), (4,)]
    tensors = [torch.randn(shape, dtype=torch.float64) for shape in shapes]
    tensors[2] = tensors[2].floor() + 0.1 + 0.8 * torch.rand_like(tensors[2])
    return tensors


def through_torchvision(*tensors: Tensor) -> Tensor:
    return torch.ops.torchvision.deform_conv2d(*tensors, 2, 1, 1, 0, 2, 1, 2, 3, True)


def ours(x: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor) -> Tensor:
    return myops.deform_conv2d(x, offset, weight, bias, (2, 1), (1, 0), (2, 1), mask)


def test_patch_runs_our_kernel_and_is_undone() -> None:
    tensors = example()
    calls.clear()
    before = through_torchvision(*tensors)
    assert calls == ["kernel"]
    with patch_torchvision():
        assert torch.equal(through_torchvision(*tensors), ours(*tensors))
        with torch.inference_mode():
            assert torch.equal(through_torchvision(*tensors), ours(*tensors))
        x, weight, offset, _, _ = tensors
        offset = offset[:, :12]
        unmasked = vision_deform_conv2d(x, offset, weight, None, (2, 1), (1, 0), (2, 1))
        assert torch.equal(unmasked, myops.deform_conv2d(x, offset, weight, None, (2, 1), (1, 0),
                                                         (2, 1)))  # fmt: skip
        assert calls == ["kernel"]
    torch.testing.assert_close(before, ours(*tensors))
    assert torch.equal(through_torchvision(*tensors), before)
    assert calls == ["kernel"] * 2


def test_patch_lasts_without_its_handle() -> None:
    tensors = example()
    handle = patch_torchvision()
    patch_torchvision().remove()
    calls.clear()
    through_torchvision(*tensors)
    assert calls == []
    kept, handle = [handle.remove], None  # type: ignore[list-item]
    gc.collect()
    through_torchvision(*tensors)
    assert calls == []
    for remove in kept:
        remove()
        remove()
    through_torchvision(*tensors)
    assert calls == ["kernel"]


def test_patched_gradients_autocast_and_compile() -> None:
    tensors = example()
    leaves = [item.requires_grad_() for item in tensors]
    wanted = torch.autograd.grad(through_torchvision(*leaves).square().sum(), leaves)
    with patch_torchvision():
        result = torch.autograd.grad(through_torchvision(*leaves).square().sum(), leaves)
        torch.testing.assert_close(result, wanted, rtol=1e-10, atol=1e-10)
        small = [leaves[0][:1], leaves[1], leaves[2][:1], leaves[3][:1], leaves[4]]
        assert torch.autograd.gradgradcheck(through_torchvision, small, fast_mode=True)
        singles = [item.detach().float().requires_grad_() for item in leaves]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert torch.equal(through_torchvision(*singles), ours(*singles))
        torch._dynamo.reset()
        compiled = torch.compile(through_torchvision, fullgraph=True, backend="aot_eager")
        assert torch.equal(compiled(*singles), ours(*singles))
        gradients = torch.autograd.grad(compiled(*singles).sum(), singles)
        expected = torch.autograd.grad(ours(*singles).sum(), singles)
        torch.testing.assert_close(gradients, expected)


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_patched_model_exports(exporter: str) -> None:
    model, x = Model().eval(), torch.randn(1, 6, 12, 9)
    with patch_torchvision(), torch.no_grad():
        exported = myops.onnx.export(model, (x,), exporter=exporter)
        wanted = model(x)
    assert [node.domain for node in nodes(exported)] == ["myops", "myops"]
    session = myops.ort.session(exported)
    (result,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    torch.testing.assert_close(torch.from_numpy(result), wanted, rtol=1e-5, atol=1e-5)


def test_without_torchvision_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)  # so importing it fails
    monkeypatch.setattr(torch.ops, "torchvision", object(), raising=False)
    for function in (register_torchvision, patch_torchvision):
        with pytest.raises(RuntimeError, match=f"^{function.__name__}: got no op {NAME}"):
            function()
