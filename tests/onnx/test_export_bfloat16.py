"""Models in bfloat16: files that would not be valid, and files without kernels on the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from myops.onnx import ExportCheckWarning, export

EXPORTERS = ["dynamo", "torchscript"]
X = torch.rand(1, 2, 42, 56)

pytestmark = pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")


class Normed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


@pytest.mark.parametrize(
    ("exporter", "opset"), [("torchscript", 20), pytest.param("dynamo", 22, marks=pytest.mark.slow)]
)
def test_bfloat16_without_a_valid_file_is_an_error(
    exporter: str, opset: int, tmp_path: Path
) -> None:
    """Opset 20 has no Conv in bfloat16; at 22 torch's fusion writes float32 weights."""
    path = tmp_path / "model.onnx"
    model, x = Normed().bfloat16().eval(), X.bfloat16()
    with pytest.raises(
        RuntimeError, match=r"not valid ONNX.*Why: the model is in bfloat16"
    ) as seen:
        export(model, x, path, exporter=exporter, opset_version=opset)
    assert "\n" not in str(seen.value)
    assert "myops.onnx.to_half" in str(seen.value)
    assert not path.exists()


class Cast(Normed):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return self.body(x)


@pytest.mark.parametrize("around", [False, True])
def test_autocast_is_named_where_it_makes_the_bfloat16(around: bool) -> None:
    """Weights and inputs are float32."""
    model = (Normed() if around else Cast()).eval()
    cause = "is active around the export" if around else "or a cast of its own"
    with (
        pytest.raises(RuntimeError, match=rf"Why: .*torch\.autocast {cause}") as seen,
        torch.autocast("cpu", torch.bfloat16, enabled=around),
    ):
        export(model, X, exporter="torchscript")
    assert "Write the model without torch.autocast for the export" in str(seen.value)
    assert "model.float()" not in str(seen.value)
    assert "register_symbolic" not in str(seen.value)


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_bfloat16_without_kernels_is_a_warning(exporter: str) -> None:
    """The file is valid, for a GPU, but cannot be compared here."""
    with pytest.warns(ExportCheckWarning, match=r"not run in ONNX Runtime.*myops\.onnx\.to_half"):
        export(torch.nn.Linear(4, 4).bfloat16(), torch.rand(1, 4).bfloat16(), exporter=exporter)


def test_a_file_that_cannot_be_compared_does_not_pass() -> None:
    """torch's fusion makes dynamo's file invalid; the other has nodes without kernels."""
    model, x = Normed().bfloat16().eval(), X.bfloat16()
    with pytest.raises(RuntimeError, match="not valid ONNX") as caught:
        export(model, x, exporter="dynamo", opset_version=22)
    assert "exports the model, but the file could not be compared with PyTorch" in str(caught.value)
    assert "passes all checks" not in str(caught.value)
    with pytest.warns(ExportCheckWarning, match="was not run in ONNX Runtime"):
        assert export(model, x, exporter="auto", opset_version=22).graph.node
