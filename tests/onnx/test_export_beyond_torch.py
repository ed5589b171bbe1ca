"""Models that torch's exporters alone refuse, or write as operators that no runtime has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import warm
from node_models import run_plain

from myops.onnx import export

EXPORTERS = ["dynamo", "torchscript"]
X = torch.rand(1, 2, 42, 56)

pytestmark = pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")


class Twice(torch.nn.Module):
    def forward(self, x: torch.Tensor, count: int) -> torch.Tensor:
        for _ in range(count):
            x = x / 2 if bool(x.sum() > 100) else x + 1
        return x


class ScriptedInside(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.jit.script(Twice())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x * 2, 3)


def test_a_scripted_submodule_keeps_its_branches() -> None:
    """torch.onnx.export refuses it. Its loop and branches stay in the graph."""
    model = export(ScriptedInside(), torch.rand(3, 4), exporter="torchscript")
    assert "If" in {node.op_type for node in model.graph.node}
    for scale in (1.0, 100.0):
        x = torch.full((3, 4), scale)
        np.testing.assert_allclose(
            run_plain(model, {"x": x.numpy()})[0], ScriptedInside()(x).numpy(), rtol=1e-6
        )


class Attention(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project = torch.nn.Linear(8, 24)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        q, k, v = self.project(x).view(*x.shape[:2], 3, 2, 4).permute(2, 0, 3, 1, 4)
        result = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return result.transpose(1, 2).reshape(x.shape)


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_the_model_is_traced_without_gradients(exporter: str) -> None:
    """With gradients, attention becomes operators that torch.export cannot reshape."""
    seen = []

    class Watched(Attention):
        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            seen.append(torch.is_grad_enabled())
            return super().forward(x, mask)

    args = (torch.rand(2, 5, 8), torch.rand(5, 5))
    export(Watched(), args, exporter=exporter, dynamic_axes={"x": {0: "batch"}})
    assert seen
    assert not any(seen)
    assert torch.is_grad_enabled()


TORCHVISION = """
import torch, myops, myops.onnx
library = torch.library.Library("torchvision", "FRAGMENT")
library.define(
    "deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, "
    "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, "
    "SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask) -> Tensor"
)
def kernel(x, w, offset, mask, bias, *rest):
    return myops.deform_conv2d(x, offset, w, bias, padding=rest[2])
def fake(x, w, offset, *rest):
    return x.new_empty(x.shape[0], w.shape[0], *offset.shape[2:])
library.impl("deform_conv2d", kernel, "CPU")
torch.library.register_fake("torchvision::deform_conv2d", fake, lib=library)
class Model(torch.nn.Module):
    def forward(self, x, offset, weight):
        empty = x.new_zeros(x.shape[0], 0)
        return torch.ops.torchvision.deform_conv2d(
            x, weight, offset, empty, x.new_zeros(2), 1, 1, 1, 1, 1, 1, 1, 1, False)
args = torch.rand(1, 2, 5, 6), torch.rand(1, 18, 5, 6), torch.rand(2, 2, 3, 3)
for wanted in (True, False):
    for exporter in ("dynamo", "torchscript"):
        try:
            model = myops.onnx.export(
                Model(), args, exporter=exporter, register_torchvision=wanted,
                skip_checks=[] if wanted else ["lost_node"])
            print(exporter, wanted, {f"{n.domain}:{n.op_type}" for n in model.graph.node})
        except RuntimeError as error:
            print(exporter, wanted, error)
"""


def test_torchvision_operator_is_registered_automatically() -> None:
    """In a process of its own, which has not called register_torchvision."""
    done = warm.run("-c", TORCHVISION)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "myops:DeformConv" in lines[0], done.stdout
    assert "myops:DeformConv" in lines[1], done.stdout
    assert "myops:DeformConv" not in lines[2], done.stdout  # asked for
    assert "register_torchvision=True, or myops.onnx.register_torchvision()" in lines[3]
    assert "is not installed" not in done.stderr


def test_an_interpolation_without_translation_names_the_argument() -> None:
    model = torch.nn.Upsample(scale_factor=1.5, mode="nearest-exact")
    with pytest.raises(RuntimeError, match="_upsample_nearest_exact2d in opset 20") as caught:
        export(model, X, exporter="torchscript")
    assert "Register it: register_interpolate=True, or" in str(caught.value)
    assert export(model, X, exporter="torchscript", register_interpolate=True).graph.node


def operations() -> dict[str, Any]:
    """Operations on a tensor and a length, as `places % (height * width)` in CenterNet."""
    return {
        "remainder": lambda x, n: x % n,
        "remainder of a product": lambda x, n: (x - 50) % (2 * n + 1),
        "power": lambda x, n: (x * 0 + 2) ** (n // 4),
        "and": lambda x, n: x.long() & n,
        "quotient": lambda x, n: x // n,
        "smallest": lambda x, n: x.clamp(max=n // 2),
    }


@pytest.mark.parametrize("floats", [False, True])
def test_operations_on_a_tensor_and_a_length_are_exported(floats: bool) -> None:
    """torch's newer exporter translates some of them only for a constant number."""

    class Every(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
            return [function(x, x.shape[2]) for function in operations().values()]

    x = torch.rand(1, 1, 8, 5) * 9
    x = x if floats else x.long()
    exported = export(Every(), x, dynamic_axes={"x": {2: "height", 3: "width"}})
    assert len(exported.graph.output) == len(operations())
