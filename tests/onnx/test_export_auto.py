"""exporter="auto": the second attempt, and which of two files is taken."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from myops.onnx import ExportCheckError, ExportCheckWarning, export

X = torch.rand(1, 2, 42, 56)
AXES = {"x": {2: "height", 3: "width"}}

pytestmark = pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")


class Rounds(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * round(x.mean())


class Linear(torch.nn.Module):
    """Right with the older exporter only: the newer one does not support the operator."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.fake_quantize_per_tensor_affine(x, 0.01, 3, 0, 255)


class Ceil(torch.nn.Module):
    """Right with the newer exporter only: a trace builds in the result of a function of math."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        import math

        return F.interpolate(x, size=(math.ceil(x.shape[2] / 14), 4), mode="bilinear")


@pytest.mark.filterwarnings("ignore")
def test_exporter_auto_takes_the_exporter_that_succeeds() -> None:
    with pytest.raises(
        RuntimeError, match='exporter="torchscript" was tried: it exports the model'
    ):
        export(Linear(), X, dynamic_axes=AXES)
    for model in (Linear(), Ceil()):
        assert export(model, X, dynamic_axes=AXES, exporter="auto").graph.node
    with pytest.raises(ExportCheckError):
        export(Ceil(), X, dynamic_axes=AXES, exporter="torchscript")


def test_a_length_that_min_decides_is_right_with_dynamo() -> None:
    """And the refusal of the other exporter says so."""

    class TopK(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.topk(x, min(10, x.shape[1])).values

    text = 'exporter="dynamo" was tried: it exports the model and passes all checks'
    with pytest.raises(ExportCheckError, match=text):
        export(TopK(), torch.rand(2, 20), dynamic_axes={"x": {1: "n"}}, exporter="torchscript")


def test_exporter_auto_names_both_failures(tmp_path: Path) -> None:
    text = "neither exporter makes a right file.\ndynamo: .*\ntorchscript: "
    with pytest.raises(RuntimeError, match=text):
        export(Rounds(), X, tmp_path / "model.onnx", dynamic_axes=AXES, exporter="auto")
    assert not list(tmp_path.iterdir())


def test_auto_prefers_a_file_that_can_be_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    from myops.onnx.exporting import checked_export

    made = checked_export._made
    uncompared = {"dynamo": "no kernel"}

    def marked(task: Any, exporter: str) -> Any:
        found = made(task, exporter)
        warnings.warn(exporter, ExportCheckWarning, stacklevel=1)
        return checked_export._Made(found.proto, uncompared.get(exporter, ""))

    monkeypatch.setattr(checked_export, "_made", marked)
    for others, wanted in (({}, "torchscript"), ({"torchscript": "no kernel"}, "dynamo")):
        uncompared.update(others)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ExportCheckWarning)
            export(torch.nn.ReLU(), X, exporter="auto")
        said = [str(item.message) for item in caught if item.category is ExportCheckWarning]
        assert said == [wanted]
