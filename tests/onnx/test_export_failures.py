"""The errors of export when torch's exporter fails, and its second attempt with the other
exporter."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import warm
from guard_models import Model
from node_models import run_plain

from myops.onnx import ExportCheckError, ExportCheckWarning, export

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


def test_exporter_auto_names_both_failures(tmp_path: Path) -> None:
    text = "neither exporter makes a right file.\ndynamo: .*\ntorchscript: "
    with pytest.raises(RuntimeError, match=text):
        export(Rounds(), X, tmp_path / "model.onnx", dynamic_axes=AXES, exporter="auto")
    assert not list(tmp_path.iterdir())


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


def test_a_file_that_cannot_be_compared_does_not_pass() -> None:
    """torch's fusion makes dynamo's file invalid; the other has nodes without kernels."""
    model, x = Normed().bfloat16().eval(), X.bfloat16()
    with pytest.raises(RuntimeError, match="not valid ONNX") as caught:
        export(model, x, exporter="dynamo", opset_version=22)
    assert "exports the model, but the file could not be compared with PyTorch" in str(caught.value)
    assert "passes all checks" not in str(caught.value)
    with pytest.warns(ExportCheckWarning, match="was not run in ONNX Runtime"):
        assert export(model, x, exporter="auto", opset_version=22).graph.node


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
