"""`myops.onnx.compare`: models that agree, faults that must be found, reproductions."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
import warm
from compare_models import (
    EXPORTERS,
    Containers,
    Deep,
    Ours,
    export,
    flip_weight,
    node_of,
    set_attribute,
)
from torch import nn

import myops.onnx
from myops.onnx.comparison import compare
from myops.onnx.comparison.metrics import Tolerance, difference


def paths(report):
    return {(value.path, value.call) for value in report.values}


def edited(proto):
    return onnx.ModelProto.FromString(proto.SerializeToString())


@pytest.fixture(scope="module", params=EXPORTERS)
def deep(request):
    """A network of 50 layers and its file."""
    torch.manual_seed(3)
    model, args = Deep().eval(), (torch.rand(1, 3, 12, 12),)
    return model, args, export(model, args, request.param)


def test_one_wrong_pad_in_fifty_layers_is_found_and_named(deep):
    model, args, proto = deep
    report = compare(model, args, proto)
    assert report.passed
    assert len(report.values) > 100
    proto = edited(proto)
    node = node_of(proto, "Conv", 26)
    set_attribute(node, "pads", [2, 1, 0, 1])  # the shapes stay
    report = compare(model, args, proto)
    assert not report.passed
    assert report.first_mismatch.cause == "node"
    assert {report.first_mismatch.path, report.first_mismatch.fused} == {
        "layers.26.0",
        "layers.26.1",
    }
    assert report.first_mismatch.nodes == [f"Conv {node.name!r}"]
    assert any("pads is [2, 1, 0, 1]" in text and "[1, 1, 1, 1]" in text
               for text in report.first_mismatch.evidence)  # fmt: skip
    before = [v for v in report.values if v.depth < list(proto.graph.node).index(node)]
    assert len(before) > 50
    assert {value.status for value in before} == {"ok"}


def test_a_pad_that_changes_the_shape_is_found():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.Tanh(), nn.Conv2d(2, 2, 3, padding=1))
    args = (torch.rand(1, 1, 8, 8),)
    proto = export(model, args, "torchscript")
    set_attribute(node_of(proto, "Conv"), "pads", [0, 0, 0, 0])
    mismatch = compare(model, args, proto).first_mismatch
    assert (mismatch.path, mismatch.nodes) == ("0", [f"Conv {node_of(proto, 'Conv').name!r}"])


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_containers_and_shared_modules(exporter):
    torch.manual_seed(1)
    model, x = Containers().eval(), torch.randn(1, 4, 8, 8)
    proto = export(model, (x,), exporter)
    report = compare(model, x, proto)
    assert report.passed
    assert {("conv", 2), ("block.act", 1), ("one.a", 1), ("two.b.0", 0), ("only.0.0", 0)} <= paths(
        report
    )
    reasons = {item.path: item.reason for item in report.unmatched}
    assert reasons.keys() == {"drop", "same"}
    assert all("changes nothing" in reason for reason in reasons.values())
    # In the file each call has a node of its own; the node of the second call is changed.
    node = [n for n in proto.graph.node if n.op_type == "Conv" and "conv.weight" in n.input[1]][4]
    assert node.input[1] == "block.conv.weight"
    set_attribute(node, "pads", [0, 2, 2, 0])
    mismatch = compare(model, x, proto).first_mismatch
    assert (mismatch.path, mismatch.call, mismatch.nodes) == (
        "block.conv",
        1,
        [f"Conv {node.name!r}"],
    )


def test_a_reversed_weight_is_found():
    torch.manual_seed(1)
    model, x = Containers().eval(), torch.randn(1, 4, 8, 8)
    proto = export(model, (x,), "torchscript")
    flip_weight(proto, "two.b.0.weight")
    mismatch = compare(model, x, proto).first_mismatch
    assert (mismatch.path, len(mismatch.nodes)) == ("two.b.0", 1)
    assert any("elements of the constant 'two.b.0.weight'" in text for text in mismatch.evidence)


@pytest.mark.parametrize(
    ("op_type", "attribute", "value", "exporter"),
    [
        ("Resize", "mode", "linear", "dynamo"),
        ("Resize", "cubic_coeff_a", -0.5, "torchscript"),
        ("DeformConv", "pads", None, "torchscript"),
    ],
)
def test_a_changed_attribute_of_our_nodes_is_found(op_type, attribute, value, exporter):
    torch.manual_seed(2)
    model = Ours().eval()
    args = (torch.rand(1, 3, 8, 8), torch.tensor([1.5, 2.0]))
    proto = export(model, args, exporter)
    assert compare(model, args, proto).passed
    node = node_of(proto, op_type)
    assert node.domain == "myops"
    if value is None:
        (old,) = [list(a.ints) for a in node.attribute if a.name == attribute]
        value = [number + step for number, step in zip(old, [1, 0, -1, 0], strict=True)]
    set_attribute(node, attribute, value)
    report = compare(model, args, proto)
    assert not report.passed
    assert report.first_mismatch.nodes == [f"myops::{op_type} {node.name!r}"]
    assert report.first_mismatch.path == ("deform" if op_type == "DeformConv" else "")
    assert any(f"attribute {attribute} is" in text for text in report.first_mismatch.evidence)


@pytest.mark.parametrize(("exporter", "depth"), [("dynamo", 1), ("torchscript", 2)])
def test_a_wrong_axis_in_a_transformer_encoder_is_found(exporter, depth):
    torch.manual_seed(4)
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    model, x = nn.TransformerEncoder(layer, depth).eval(), torch.randn(2, 5, 16)
    proto = export(model, (x,), exporter)
    report = compare(model, x, proto)
    assert report.passed
    last = f"layers.{depth - 1}"
    assert {(f"{last}.{name}", 0) for name in ("self_attn", "linear2", "norm2")} <= paths(report)
    node = node_of(proto, "Softmax", depth - 1)
    set_attribute(node, "axis", 1)
    mismatch = compare(model, x, proto).first_mismatch
    assert mismatch.path.startswith(last)
    assert mismatch.nodes == [f"Softmax {node.name!r}"]


def test_float16_models_are_compared():
    torch.manual_seed(5)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Sigmoid(), nn.Conv2d(4, 4, 3)).half().eval()
    args = (torch.rand(1, 3, 8, 8).half(),)
    proto = export(model, args, "torchscript")
    report = compare(model, args, proto)
    assert report.passed
    assert {value.dtype for value in report.values} == {"float16"}
    node_of(proto, "Sigmoid").op_type = "Tanh"
    assert compare(model, args, proto).first_mismatch.path == "1"


def test_bfloat16_models_are_compared():
    model = myops.nn.MyAdd()
    args = (torch.randn(4).bfloat16(), torch.randn(4).bfloat16())
    report = compare(model, args, export(model, args, "dynamo"))
    assert report.passed
    assert [value.dtype for value in report.values if not value.path] == ["bfloat16"]


def test_keyword_arguments_and_wrong_arguments():
    class Model(nn.Module):
        def forward(self, x, y=None, *, flag=True):
            return x * 2 if flag else x + y

    model, x = Model(), torch.rand(3)
    proto = export(model, (x,), "dynamo", kwargs={"flag": True})
    assert compare(model, x, proto, kwargs={"flag": True}).passed
    with pytest.raises(ValueError, match=r"unexpected keyword argument 'flog'.*forward\(x, y=None"):
        compare(model, x, proto, kwargs={"flog": True})
    with pytest.raises(ValueError, match=r"expects \[3\]"):
        compare(model, torch.rand(4), proto)
    with pytest.raises(ValueError, match="expected one of disable"):
        compare(model, x, proto, optimization="basics")


def test_a_frozen_input_is_noted():
    class Model(nn.Module):
        def forward(self, x, scale):
            return x * scale.item()

    model, args = Model(), (torch.rand(3), torch.tensor(2.0))
    proto = export(model, args, "torchscript")
    assert len(proto.graph.input) == 1
    assert "no input 'scale'" in " ".join(compare(model, args, proto).notes)


def test_the_model_is_left_as_it_was():
    torch.manual_seed(6)

    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(1, 1, 1)
            self.drop = nn.Dropout()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x):
            self.calls += 1
            x += 1  # its own input, in place
            return self.drop(self.conv(x))

    model, x = Counting().train(), torch.rand(1, 1, 4, 4)
    model.drop.eval()
    hooked = model.conv.register_forward_hook(lambda *_: None)
    proto = export(copy.deepcopy(model), (x.clone(),), "torchscript")
    for tensor in [t for t in proto.graph.initializer if t.dims]:
        wrong = onnx.numpy_helper.to_array(tensor) + 1
        tensor.CopyFrom(onnx.numpy_helper.from_array(wrong, tensor.name))
    state, given, rng = copy.deepcopy(model.state_dict()), x.clone(), torch.random.get_rng_state()
    assert not compare(model, x, proto).passed  # also the search for the node
    assert (model.training, model.drop.training, model.conv.training) == (True, False, True)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, state[name]), name
    assert torch.equal(x, given)
    assert torch.equal(torch.random.get_rng_state(), rng)
    assert list(model.conv._forward_hooks) == [hooked.id]
    assert not model.drop._forward_hooks
    assert not model.conv._forward_pre_hooks


def test_a_reproduction_runs_alone(tmp_path):
    torch.manual_seed(3)
    model, args = Deep(4).eval(), (torch.rand(1, 3, 12, 12),)
    good = export(model, args, "torchscript")
    proto = edited(good)
    set_attribute(node_of(proto, "Conv", 2), "pads", [1, 2, 1, 0])
    report = compare(model, args, proto)
    script = report.write_reproduction(tmp_path / "repro")
    assert {item.name for item in (tmp_path / "repro").iterdir()} == {
        "submodel.onnx", "inputs.npz", "expected.npz", "script.py"}  # fmt: skip
    moved = (tmp_path / "repro").rename(tmp_path / "elsewhere")
    run = subprocess.run(
        [sys.executable, "-I", "-c",
         "import sys, runpy; sys.modules['torch'] = None; sys.modules['myops'] = None;"
         f"runpy.run_path({str(moved / 'script.py')!r}, run_name='__main__')"],
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert run.returncode == 1, run.stderr
    assert "largest difference: 0." in run.stdout
    assert "layers.2.0" in run.stdout
    cut = onnx.load(moved / "submodel.onnx")
    assert [node.op_type for node in cut.graph.node] == ["Conv"]
    assert str(script).endswith("script.py")
    with pytest.raises(ValueError, match="nothing to reproduce: no value differs"):
        compare(model, args, good).write_reproduction(tmp_path)


def test_a_reproduction_with_our_node_names_the_library(tmp_path):
    torch.manual_seed(2)
    model, args = Ours().eval(), (torch.rand(1, 3, 8, 8), torch.tensor([2.0, 2.0]))
    proto = export(model, args, "torchscript")
    set_attribute(node_of(proto, "Resize"), "mode", "linear")
    report = compare(model, args, proto)
    script = report.write_reproduction(tmp_path)
    assert "Needs numpy and onnxruntime, myops" in Path(script).read_text()
    run = warm.run(script, env=os.environ | {"PYTHONPATH": "python"})
    assert run.returncode == 1, run.stderr
    got = [line for line in run.stdout.splitlines() if "largest difference" in line]
    found = float(got[0].split(":")[1].split("at")[0])
    assert found == pytest.approx(report.first_mismatch.alone.max_abs)


def test_a_node_at_which_onnxruntime_fails_is_named():
    class Pick(nn.Module):
        def forward(self, x):
            return x[:, 1]

    model, args = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), Pick(), nn.ReLU()), (torch.rand(2, 4),)
    proto = export(model, args, "torchscript")
    gather = node_of(proto, "Gather")
    for node in proto.graph.node:
        if gather.input[1] in node.output:
            set_attribute(node, "value", onnx.numpy_helper.from_array(np.array(99)))
    report = compare(model, args, proto)
    assert not report.passed
    assert [value.path for value in report.values] == ["0", "1"]
    assert any(f"stops at Gather {gather.name!r}" in note for note in report.notes)
    assert (report.first_mismatch.cause, report.first_mismatch.path) == ("stops", "2")
    assert report.first_mismatch.nodes == [f"Gather {gather.name!r}"]
    assert any("constant" in text for text in report.first_mismatch.evidence)
    json.dumps(report.to_dict())


def test_a_fault_of_the_optimizer_is_named(monkeypatch):
    """ONNX Runtime is right; its optimizer is replaced by a wrong one."""
    from myops.onnx.comparison import ort_side

    model, args = nn.Sequential(nn.ReLU(), nn.Tanh()), (torch.randn(2, 3),)
    proto = export(model, args, "torchscript")
    run = ort_side.Runner.run

    def wrong(self, model, feeds, names=None, level="disable", types=None):
        found = run(self, model, feeds, names, level, types)
        worse = level in ("extended", "all")
        return {name: array + worse for name, array in found.items()}

    monkeypatch.setattr(ort_side.Runner, "run", wrong)
    report = compare(model, args, proto)
    assert (report.passed, report.first_mismatch.cause) == (False, "optimiser")
    assert "'extended'" in report.first_mismatch.evidence[0]


def test_accumulated_rounding_is_no_fault_of_a_module():
    torch.manual_seed(0)
    layers = [layer for _ in range(12) for layer in (nn.Linear(64, 64), nn.GELU())]
    model = nn.Sequential(*layers).eval()
    with torch.no_grad():
        for layer in layers[::2]:  # each enlarges its input, and so the error of the layers before
            layer.weight.mul_(6)
    args = (torch.randn(4, 64),)
    proto = export(model, args, "torchscript")
    assert compare(model, args, proto).passed
    (last,) = [v for v in compare(model, args, proto).values if not v.path]
    # More than the error of one layer and less than that of all together.
    report = compare(model, args, proto, rtol=0.0, atol=last.difference.max_abs * 0.9)
    assert not report.passed
    assert report.first_mismatch.cause == "rounding"
    assert report.first_mismatch.nodes == []


def test_difference_against_plain_numpy(rng):
    a = rng.normal(size=(3, 5, 7)).astype(np.float32)
    b = (a + rng.normal(size=a.shape) * 1e-3).astype(np.float32)
    found = difference(a, b, 1e-3, 1e-4)
    wide = a.astype(np.float64), b.astype(np.float64)
    gaps = np.abs(wide[0] - wide[1])
    assert found.max_abs == gaps.max()
    assert found.worst == np.unravel_index(gaps.argmax(), gaps.shape)
    assert found.quantiles[50] == pytest.approx(np.median(gaps), rel=0.1)
    assert found.quantiles[100] == gaps.max()
    assert found.wrong == np.count_nonzero(~np.isclose(wide[1], wide[0], rtol=1e-3, atol=1e-4))
    cosine = np.sum(wide[0] * wide[1]) / np.linalg.norm(wide[0]) / np.linalg.norm(wide[1])
    assert found.cosine == pytest.approx(cosine)


def test_difference_with_nan_inf_integers_and_empty_arrays():
    nan, inf = np.float32("nan"), np.float32("inf")
    same = np.array([nan, inf, -inf, 0], np.float32)
    assert difference(same, same.copy(), 0.0, 0.0).agrees
    for one, other in [(nan, 1), (inf, -inf), (inf, 1e30), (1, nan)]:
        found = difference(np.float32([one]), np.float32([other]), 1e-3, 1e-3)
        assert not found.agrees
        assert found.max_abs == np.inf
    assert difference(np.array([2**60]), np.array([2**60 + 1]), 0.0, 0.0).wrong == 1
    assert difference(np.zeros((0, 3)), np.zeros((0, 3)), 0.0, 0.0).agrees


def test_tolerance_follows_the_scale_of_a_value():
    small, large = np.full(4, 1e-1, np.float32), np.full(4, 1e4, np.float32)
    tolerance = Tolerance()
    assert tolerance.of(large, "float32")[1] == pytest.approx(1e-4 * 1e4)
    assert tolerance.of(small, "float32")[1] == pytest.approx(1e-4 * 1e-1)
    assert tolerance.of(np.zeros(4, np.float32), "float32")[1] == pytest.approx(1e-6)
    assert tolerance.of(np.arange(4), "int64") == (0.0, 0.0)
    assert Tolerance(0.5, 0.25).of(large, "float32") == (0.5, 0.25)
