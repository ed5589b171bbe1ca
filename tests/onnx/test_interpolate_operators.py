"""torch's own interpolation in unchanged models: exported as our node, and run by our kernel.

The cases are every operator behind torch.nn.functional.interpolate; the references are torch's own
kernel, and ONNX Runtime on the exported file.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import myops
import myops.onnx
import myops.ort
from myops._torch.interpolate import OPERATORS, is_patched
from myops.onnx import export
from myops.onnx.symbolics import registry

EXPORTERS = ["dynamo", "torchscript"]
FACTORS = (1.7, 0.6, 1.3)  # 12 * 1.7 and 10 * 0.6 are whole in float32, but not in float64

pytestmark = pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")


class Resized(torch.nn.Module):
    """Usual calls of F.interpolate; `by` is how the size is given."""

    def __init__(self, by: str, **options: Any) -> None:
        super().__init__()
        self.by, self.options = by, options

    def forward(self, x: Tensor) -> Tensor:
        lengths = x.shape[2:]
        if self.by == "size":
            return F.interpolate(x, size=[n // 2 + 3 for n in lengths], **self.options)
        if self.by == "factors":
            return F.interpolate(x, scale_factor=FACTORS[: len(lengths)], **self.options)
        if self.by == "recomputed":
            return F.interpolate(x, scale_factor=1.5, recompute_scale_factor=True, **self.options)
        return F.interpolate(x, scale_factor=2.0, **self.options)


def example(count: int) -> tuple[Tensor, Tensor, dict[str, Any]]:
    """An input, one of other lengths, and the dynamic axes."""
    axes = {"x": {2 + i: "dhw"[i] for i in range(count)}}
    lengths = (12, 10, 7)[:count], (17, 13, 11)[:count]
    return torch.rand(1, 2, *lengths[0]), torch.rand(1, 2, *lengths[1]), axes


def run(model: Any, x: Tensor) -> np.ndarray:
    return myops.ort.session(model).run(None, {"x": x.numpy()})[0]


def our_nodes(model: Any) -> list[str]:
    return [node.op_type for node in model.graph.node if node.domain == "myops"]


def options(name: str) -> dict[str, Any]:
    return {"mode": OPERATORS[name][0], "antialias": name.endswith("_aa")}


def case(name: str, exporter: str) -> Any:
    """An export with dynamo takes seconds, so `make test` has one."""
    few = exporter == "torchscript" or name in ("_upsample_bicubic2d_aa",)
    return (name, exporter) if few else pytest.param(name, exporter, marks=pytest.mark.slow)


@pytest.mark.parametrize(("name", "exporter"), [case(n, e) for e in EXPORTERS for n in OPERATORS])
def test_every_operator_is_written_as_our_node(name: str, exporter: str) -> None:
    x, other, axes = example(OPERATORS[name][1])
    ways = ("size", "factors") if exporter == "torchscript" else ("factors",)
    for by in ways:
        model = Resized(by, **options(name))
        exported = export(model, x, dynamic_axes=axes, exporter=exporter, register_interpolate=True)
        assert our_nodes(exported) == ["Resize"], by
        got = run(exported, other)
        np.testing.assert_allclose(got, model(other).numpy(), atol=1e-5)
        with myops.patch_interpolate():
            np.testing.assert_array_equal(got, model(other).numpy())


@pytest.mark.parametrize("opset", [9, 13, 18, 20])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_antialias_needs_no_registration(mode: str, opset: int) -> None:
    """torch's trace does not support it; our standard form is right from opset 9 on."""
    x, other, axes = example(2)
    model = Resized("recomputed" if opset == 13 else "size", mode=mode, antialias=True,
                    align_corners=opset == 18)  # fmt: skip
    for target in ("myops", "onnx"):
        exported = export(model, x, dynamic_axes=axes, exporter="torchscript",
                          opset_version=opset, target=target)  # fmt: skip
        np.testing.assert_allclose(run(exported, other), model(other).numpy(), atol=1e-5)


def test_antialias_by_a_factor_with_dynamo() -> None:
    """torch's translation is silently wrong there: docs/opset_matrix.md."""
    x, other, axes = example(2)
    model = Resized("factors", mode="bilinear", antialias=True)
    exported = export(model, x, dynamic_axes=axes)
    np.testing.assert_allclose(run(exported, other), model(other).numpy(), atol=1e-5)


@pytest.mark.filterwarnings("ignore::myops.onnx.ExportCheckWarning")
def test_register_interpolate_argument_and_patch() -> None:
    x, _, axes = example(2)
    plain = Resized("factor", mode="bilinear")
    antialiased = Resized("size", mode="bilinear", antialias=True)
    arguments: dict[str, Any] = {"dynamic_axes": axes, "exporter": "torchscript"}
    assert our_nodes(export(plain, x, **arguments)) == []
    with myops.patch_interpolate():
        assert our_nodes(export(plain, x, **arguments)) == ["Resize"]
        assert our_nodes(export(plain, x, register_interpolate=False, **arguments)) == []
    with pytest.raises(RuntimeError, match="_upsample_bilinear2d_aa"):
        export(antialiased, x, register_interpolate=False, **arguments)
    assert not [name for name in registry.names() if "upsample" in name]


def test_a_symbolic_of_the_user_replaces_ours() -> None:
    x, _, _ = example(2)
    name = "aten::_upsample_bilinear2d_aa"
    myops.onnx.register_symbolic(name, lambda g, x, *rest: g.op("acme::Mine", x))
    try:
        model = Resized("size", mode="bilinear", antialias=True)
        for exporter in EXPORTERS:
            exported = export(model, x, exporter=exporter, skip_checks="all")
            assert "Mine" in [node.op_type for node in exported.graph.node]
    finally:
        from myops.onnx.symbolics import register

        register.unregister(name)


def test_plain_torch_export_uses_the_registration() -> None:
    """In this process, because the registrations can be removed again."""
    from myops.onnx.symbolics import register

    x, _, _ = example(2)
    myops.onnx.register_interpolate()
    myops.onnx.register_interpolate()
    try:
        assert all(len(registry.registered[f"aten::{name}"]) == 1 for name in OPERATORS)
        model = torch.nn.Upsample(scale_factor=2.5, mode="bicubic").eval()
        program = torch.onnx.export(model, (x,), dynamo=True, verbose=False)
        assert "Resize" in our_nodes(program.model_proto)
    finally:
        for name in OPERATORS:
            register.unregister(f"aten::{name}")
    program = torch.onnx.export(model, (x,), dynamo=True, verbose=False)
    assert our_nodes(program.model_proto) == []


# -- the patch ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_the_patch_runs_our_kernel(name: str, dtype: torch.dtype) -> None:
    x = example(OPERATORS[name][1])[0].to(dtype)
    for by in ("size", "factors", "recomputed", "factor"):
        model = Resized(by, **options(name))
        with myops.patch_interpolate():
            got = model(x)
        assert got.dtype == dtype
        reference = Resized(by, **options(name))(x.double())
        eps = torch.finfo(dtype).eps
        torch.testing.assert_close(got.double(), reference, atol=max(eps, 1e-5), rtol=4 * eps)


def test_the_patch_is_undone_and_skips_integers() -> None:
    x = example(2)[0]
    image = (x * 255).to(torch.uint8)
    before = [F.interpolate(item, scale_factor=1.7, mode="bilinear") for item in (x, image)]
    with myops.patch_interpolate():
        assert is_patched()
        patched = [F.interpolate(item, scale_factor=1.7, mode="bilinear") for item in (x, image)]
        assert torch.equal(patched[1], before[1])
        assert torch.equal(patched[0], myops.interpolate(x, scale_factor=1.7, mode="bilinear"))
        last = x.contiguous(memory_format=torch.channels_last)
        result = torch.nn.Upsample(scale_factor=2, mode="bilinear")(last)
        assert result.is_contiguous(memory_format=torch.channels_last)
        assert torch.equal(F.interpolate(x, size=(3, 4), mode="area"),
                           F.adaptive_avg_pool2d(x, (3, 4)))  # fmt: skip
    assert not is_patched()
    after = F.interpolate(x, scale_factor=1.7, mode="bilinear")
    assert torch.equal(after, before[0])


def test_gradients_and_scripted_models_under_the_patch() -> None:
    x = example(2)[0].double().requires_grad_()
    scripted = torch.jit.script(torch.nn.Upsample(scale_factor=1.7, mode="bicubic"))
    with myops.patch_interpolate():
        assert torch.autograd.gradcheck(scripted, (x,))
        wanted = myops.interpolate(x.detach(), scale_factor=1.7, mode="bicubic")
        assert torch.equal(scripted(x.detach()), wanted)


def test_the_patch_skips_sizes_that_contradict_the_factors() -> None:
    """Only a direct call of the operator can do that; torch's kernel then uses the factors."""
    x = example(2)[0]
    call = (x, [5, 6], False, 0.9, 0.9)
    before = torch.ops.aten.upsample_bilinear2d(*call)
    with myops.patch_interpolate():
        assert torch.equal(torch.ops.aten.upsample_bilinear2d(*call), before)


# -- what registered functions get --------------------------------------------------------------


def test_float_lists_reach_a_symbolic_as_float64() -> None:
    """torch's trace stores them in float32, where 1.7 is 1.7000000476837158."""
    seen = []

    def write(g: Any, x: Any, sizes: Any, factors: Any) -> Any:
        seen.append((sizes, factors))
        return g.op("Identity", x)

    name = "aten::upsample_nearest2d"
    myops.onnx.register_symbolic(name, write)
    try:
        export(Resized("factors", mode="nearest"), example(2)[0], exporter="torchscript",
               skip_checks="all")  # fmt: skip
    finally:
        from myops.onnx.symbolics import register

        register.unregister(name)
    assert seen == [(None, [1.7, 0.6])]


def test_antialias_of_one_column_warns_of_the_fault_of_torch() -> None:
    """With antialias, torch gives all rows the values of the first row; the file is right."""

    class Narrow(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.interpolate(x, size=(9, 1), mode="bicubic", antialias=True)

    x = example(2)[0]
    if not torch.equal(*Narrow()(x)[0, 0, :2, 0]):
        pytest.skip("this torch no longer has the fault: it computes every row")
    with pytest.warns(myops.onnx.ExportCheckWarning, match="PyTorch's own result is wrong") as seen:
        exported = export(Narrow(), x, exporter="torchscript")
    assert len([item for item in seen if re.search("own result", str(item.message))]) == 1
    wanted = myops.interpolate(x, size=(9, 1), mode="bicubic", antialias=True)
    np.testing.assert_array_equal(run(exported, x), wanted.numpy())
