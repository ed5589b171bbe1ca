"""The errors of export when torch's exporter fails: line, cause, and what to write instead."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from guard_models import Model

from myops.onnx import ExportCheckError, export

EXPORTERS = ["dynamo", "torchscript"]
X = torch.rand(1, 2, 42, 56)
AXES = {"x": {2: "height", 3: "width"}}

pytestmark = pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")


class Branch(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum() > 0 else x + 1  # fails


class Item(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, :, : x.argmax().item()]  # fails


class Rounds(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * round(x.mean())  # fails


class RoundsLengths(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, size=(round(x.shape[2] / 14), 4))  # fails


class Asserts(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.compiler.is_compiling() or torch.jit.is_tracing():
            assert x.shape[2] == 14, "rows come in fourteens"  # fails
        return x + 1


class Floats(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, scale_factor=float(x.shape[2] / 10))  # fails


class Counts(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for row in range(x.shape[2]):  # fails
            x = x + row
        return x


class OneHead(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.flatten(2)
        return F.scaled_dot_product_attention(rows, rows, rows)  # fails


class Divides(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, rest = divmod(x.shape[2], 14)  # fails
        return x[:, :, rest:] * rows


class NormsLengths(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x * 2
        return F.layer_norm(x, x.shape[-1:])  # fails


class Caches(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[int, torch.Tensor] = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x.shape[2]
        if h not in self.rows:  # fails
            self.rows[h] = torch.arange(h)
        return x + self.rows[h].view(-1, 1)


class SlicesFromTheEnd(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x - x[:, :, -3:-2]  # fails


# model, exporter, the cause, what to write instead
CASES: list[tuple[Any, str, str, str]] = [
    (Branch, "dynamo", "an if, .item", "torch.where"),
    (Item, "dynamo", "", ""),
    (Rounds, "dynamo", r"round\(\) is applied", "torch.round"),
    (Rounds, "torchscript", r"round\(\) is applied", "torch.round"),
    (RoundsLengths, "dynamo", r"round\(\) is applied", r"\(2 \* h \+ n\) // \(2 \* n\)"),
    (RoundsLengths, "torchscript", r"round\(\) is applied", r"\(2 \* h \+ n\) // \(2 \* n\)"),
    (Asserts, "dynamo", "an assert of the model fails", "multiple"),
    (Asserts, "torchscript", "an assert of the model fails", "multiple"),
    (Floats, "dynamo", "a float is made of a length", "integer arithmetic"),
    (Counts, "dynamo", "needs a plain number", r"torch\.arange"),
    (Caches, "dynamo", "a dynamic length is the key of a dict", "without the cache"),
    (SlicesFromTheEnd, "dynamo", "cannot prove .* the slice", r"x\[:, -3\].unsqueeze\(1\)"),
    (Divides, "torchscript", r"divmod\(\) takes no length", "h // n and h % n"),
    (NormsLengths, "torchscript", "an argument that ONNX has as an attribute", "a constant there"),
    (OneHead, "dynamo", "with 4 axes only", r"q\.unsqueeze\(1\)"),
]


@pytest.mark.parametrize(("model", "exporter", "cause", "instead"), CASES)
def test_a_failure_names_line_cause_and_remedy(
    model: Any, exporter: str, cause: str, instead: str, capfd: Any
) -> None:
    if model is Item and exporter == "dynamo":  # newer releases of torch follow it
        export(model(), X, dynamic_axes=AXES, exporter=exporter)
        return
    with pytest.raises(RuntimeError) as caught:
        export(model(), X, dynamic_axes=AXES, exporter=exporter)
    said = str(caught.value)
    lines = Path(__file__).read_text().splitlines()
    start = next(n for n, text in enumerate(lines) if text.startswith(f"class {model.__name__}("))
    line = next(n for n in range(start, len(lines)) if "# fails" in lines[n]) + 1
    assert f"Where: {__file__}:{line}: {lines[line - 1].strip()}" in said
    assert re.search(f"Why: .*{cause}", said)
    assert re.search(f"Write .*{instead}", said)
    other = EXPORTERS[EXPORTERS.index(exporter) - 1]
    assert f'exporter="{other}" was tried' in said
    assert len(said) < 2500
    assert "\x1b" not in said
    assert "\n" not in said
    path = Path(said.rpartition("is in ")[2].rstrip("."))
    everything = path.read_text()
    assert "Traceback" in everything
    assert "\x1b" not in everything
    path.unlink()
    out, err = capfd.readouterr()
    assert out == ""
    assert "def forward" not in err  # whole graphs


class Rotates(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        turn = torch.polar(torch.ones_like(x), x)  # fails
        return torch.view_as_real(turn)


def test_complex_numbers_are_refused() -> None:
    """No operator can be registered for them: no runtime has complex numbers."""
    text = r"aten::polar of complex numbers.*Where: .*turn = torch\.polar.*Write real and imag"
    with pytest.raises(RuntimeError, match=text) as caught:
        export(Rotates(), X, exporter="torchscript")
    assert "register_symbolic" not in str(caught.value)


class Pair:
    def __init__(self, one: torch.Tensor) -> None:
        self.one = one


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        (lambda x: Pair(x), "Why: forward takes or returns an object .* Write a tuple or a dict"),
        (lambda x: (x + 1, 3), r"Why: forward returns a number .* Write torch\.tensor\(n\)"),
    ],
)
def test_results_that_are_no_tensors_are_refused(returned: Any, text: str) -> None:
    class Returns(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return returned(x)

    with pytest.raises(RuntimeError, match=text):
        export(Returns(), X, exporter="torchscript")


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_a_roll_by_a_length_says_what_to_write(exporter: str) -> None:
    model = Model(lambda x: torch.roll(x, -(x.shape[3] // 3), -1))
    with pytest.raises((RuntimeError, ExportCheckError), match=r"rite torch\.cat\(\[x\[\.\.\., k"):
        export(model, X, dynamic_axes=AXES, exporter=exporter)


def test_a_tensor_of_lengths_says_what_to_write() -> None:
    model = Model(lambda x: x / torch.tensor([x.shape[2], x.shape[3]]).sum())
    text = r"built in at .*test_export_failures.py:\d+.* by torch\.tensor\(\).*Write torch\.stack"
    with pytest.raises(ExportCheckError, match=text):
        export(model, X, dynamic_axes=AXES, exporter="torchscript")


def test_a_length_that_a_layer_fixes_is_left_out() -> None:
    x = torch.rand(1, 3, 6, 6)
    with pytest.raises(RuntimeError, match="Leave the axis out of dynamic_axes if the model"):
        export(torch.nn.Conv2d(3, 4, 3), x, dynamic_axes={"input": [1]}, exporter="dynamo")


def test_casts_of_tensors_are_no_advice() -> None:
    class Bits(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x.float() * 10).int() | 1

    with pytest.raises(RuntimeError, match="Write other operations of torch there") as caught:
        export(Bits(), X, exporter="torchscript")
    assert "Python" not in str(caught.value)
    assert "without int()" not in str(caught.value)


def test_weights_quantized_by_torch_are_refused() -> None:
    layers = torch.nn.Sequential(torch.nn.Linear(56, 8))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = torch.ao.quantization.quantize_dynamic(layers, {torch.nn.Linear})
        with pytest.raises(
            RuntimeError, match=r"quantised by torch.*Write .*myops\.onnx\.quantize"
        ):
            export(model, X, exporter="torchscript")


class Pairs(torch.nn.Module):
    def forward(self, x: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
        return x @ pairs


@pytest.mark.parametrize("batch", [1, 2])
def test_a_model_that_never_runs_is_not_blamed_on_the_batch(batch: int) -> None:
    """A batch of 1 is doubled for torch.export."""
    args = (torch.rand(batch, 2, 3), torch.rand(4, 5))
    with pytest.raises(RuntimeError, match="PyTorch does not run the model with the example"):
        export(Pairs(), args, dynamic_axes={"x": {0: "n"}})
    with pytest.raises(ValueError, match="got an example of length 1 on axis 0, expected 2"):
        export(Model(lambda x: x.reshape(2, 3)), torch.rand(1, 2, 3),
               dynamic_axes={"x": {0: "n"}})  # fmt: skip
