"""`myops.onnx.compare`: outputs that only one side has, and files of other models."""

from __future__ import annotations

import io
import json

import onnx
import pytest
import torch
from compare_models import EXPORTERS, export
from onnx import helper, numpy_helper
from rich.console import Console
from torch import nn

from myops.onnx.comparison import compare
from myops.onnx.comparison.html import render

X = (torch.rand(1, 3, 8, 8, generator=torch.Generator().manual_seed(0)),)


class Several(nn.Module):
    """A convolution and results of it, as `kind` says."""

    def __init__(self, kind):
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 4, 3)
        self.kind = kind

    def forward(self, x):
        y = self.conv(x)
        mean, largest = y.mean((2, 3)), y.amax((2, 3))
        return {
            "three": (y, mean, largest),
            "two": (y, mean * 5),
            "dict": {"all": y, "mean": mean, "largest": largest},
            "none": (y, None),
            "twice": (y, y),
            "length": (y, x.shape[0] * 2),
            "length between": (y, x.shape[0] * 2, mean),
        }[self.kind]


def without(proto, *names):
    """The file without some of its outputs."""
    kept = [item for item in proto.graph.output if item.name not in names]
    del proto.graph.output[:]
    proto.graph.output.extend(kept)
    return proto


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_outputs_without_a_counterpart_fail(exporter):
    model = Several("three").eval()
    report = compare(model, X, export(Several("two").eval(), X, exporter))
    assert not report.passed
    wrong = report.unpaired
    assert len(wrong) == 3
    assert "The file has the output" in wrong[0]
    assert "float32[1, 4]" in wrong[0]
    assert "The PyTorch model has the output [1] (float32[1, 4])" in wrong[1]
    assert "[2]" in wrong[2]
    assert report.first_mismatch is None
    screen = io.StringIO()
    report.print(Console(file=screen, width=300))
    assert "fail The PyTorch model has the output [2]" in screen.getvalue()
    assert "FAIL" in screen.getvalue()
    assert "The PyTorch model has the output [2]" in render(report)
    assert json.loads(report.to_json())["unpaired"] == list(wrong)


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_an_output_that_only_one_side_has_fails_though_the_others_agree(exporter):
    model = Several("three").eval()
    proto = export(model, X, exporter)
    less = without(onnx.ModelProto.FromString(proto.SerializeToString()),
                   proto.graph.output[1].name)  # fmt: skip
    report = compare(model, X, less)
    assert not report.passed
    assert len(report.unpaired) == 1
    assert "output [1]" in report.unpaired[0]
    proto.graph.output.append(helper.make_empty_tensor_value_info("more"))
    proto.graph.node.append(helper.make_node("Neg", [proto.graph.output[0].name], ["more"]))
    report = compare(model, X, proto)
    assert not report.passed
    assert report.unpaired == [
        "The file has the output 'more' (float32[1, 4, 6, 6]), which belongs to no output of the "
        "PyTorch model."
    ]


def test_outputs_are_paired_by_name_if_their_numbers_differ():
    model = Several("dict").eval()
    proto = export(model, X, "torchscript", output_names=["all", "mean", "largest"])
    for node in proto.graph.node:
        if "largest" in node.output:
            node.output[0] = "before"
    proto.graph.initializer.append(numpy_helper.from_array(torch.tensor(2.0).numpy(), "two"))
    proto.graph.node.append(helper.make_node("Mul", ["before", "two"], ["largest"]))
    report = compare(model, X, without(proto, "mean"))
    assert report.unpaired == [
        "The PyTorch model has the output ['mean'] (float32[1, 4]), which belongs to no output of "
        "the file."
    ]
    found = {v.name: (v.place, v.status) for v in report.values if not v.path}
    assert found == {"all": ("['all']", "ok"), "largest": ("['largest']", "fail")}


@pytest.mark.parametrize(
    ("kind", "exporters"),
    [
        ("none", EXPORTERS),
        ("twice", EXPORTERS),
        ("length", ["torchscript"]),
        ("length between", ["torchscript"]),
    ],
)
def test_numbers_and_absent_outputs_need_no_counterpart(kind, exporters):
    model = Several(kind).eval()
    for exporter in exporters:
        report = compare(model, X, export(model, X, exporter))
        assert (report.passed, list(report.unpaired), list(report.notes)) == (True, [], [])


def test_the_file_of_another_model_cannot_be_compared():
    other = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()).eval()
    proto = export(Several("three").eval(), X, "dynamo")
    with pytest.raises(ValueError, match=r"could not be compared: got .*expected .*float32\[1, 8"):
        compare(other, X, proto)
