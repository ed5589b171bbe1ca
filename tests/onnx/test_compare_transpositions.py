"""`myops.onnx.compare`: exporters merge transpositions, and fuse a convolution with its
normalisation; neither is a fault, but a wrong order of axes is."""

from __future__ import annotations

import pytest
import torch
from compare_models import EXPORTERS, export, node_of, set_attribute
from torch import nn

import myops.onnx
from myops.onnx.comparison import compare


class Tokens(nn.Module):
    """Attention over the pixels of an image, as detectors have it."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm.running_mean.normal_(0, 0.1)
        self.norm.running_var.uniform_(0.5, 2)

    def forward(self, x):
        x = self.norm(self.conv(x))
        n, c, h, w = x.shape
        tokens = x.flatten(2).transpose(1, 2)
        tokens = self.attention(tokens, tokens, tokens, need_weights=False)[0]
        return x + tokens.transpose(1, 2).reshape(n, c, h, w)


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_merged_transpositions_and_arithmetic_of_lengths_are_no_faults(exporter, tmp_path):
    torch.manual_seed(5)
    model, x = Tokens().eval(), torch.randn(3, 3, 14, 10)
    axes = {"x": {0: "n", 2: "h", 3: "w"}}
    proto = myops.onnx.export(
        model, (torch.randn(2, 3, 8, 8),), tmp_path / "tokens.onnx", input_names=["x"],
        dynamic_axes=axes, exporter=exporter, skip_checks="all",
    )  # fmt: skip
    report = compare(model, x, proto)
    assert report.passed
    merged = [value for value in report.values if value.transposed]
    assert merged
    assert {value.status for value in merged} == {"absorbed"}
    assert {"axes are in another order" in value.detail for value in merged} == {True}
    # A convolution of which only the arithmetic of lengths is left is named with its normalisation.
    assert not [call for call in report.unmatched if call.path in ("conv", "norm")]
    assert {"conv", "norm"} in [{value.path, value.fused} for value in report.values]


def test_a_wrong_transposition_is_found():
    class Turned(nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.after = nn.Linear(4, 6), nn.Linear(6, 4)

        def forward(self, x):
            return self.after(self.before(x).transpose(0, 1))

    torch.manual_seed(6)
    model, x = Turned().eval(), torch.randn(3, 5, 4)
    proto = export(model, (x,), "torchscript")
    node = node_of(proto, "Transpose", 0)
    set_attribute(node, "perm", [0, 1, 2])
    mismatch = compare(model, x, proto).first_mismatch
    assert mismatch.nodes == [f"Transpose {node.name!r}"]
