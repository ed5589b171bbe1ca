"""Other lengths: which errors and warnings the checks of export give."""

from __future__ import annotations

import bisect

import numpy as np
import onnx
import pytest
import torch
import torch.nn.functional as F
from guard_models import Model, assert_fails

import myops
from myops._torch import traced_numbers
from myops.onnx import ExportCheckError, ExportCheckWarning, export
from myops.onnx.exporting import float_lengths, recorded
from myops.onnx.guards import _difference, _origin

EXPORTERS = ["dynamo", "torchscript"]
AXES = {"x": {2: "height", 3: "width"}}

pytestmark = pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")


def patches(x: torch.Tensor) -> torch.Tensor:
    return F.interpolate(x, size=(int(x.shape[2] // 14 * 14), int(x.shape[3] // 14 * 14)))


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_the_line_that_builds_a_length_in_is_named(exporter: str) -> None:
    """The next length would not show it: 44 // 14 == 43 // 14."""
    line = patches.__code__.co_firstlineno + 1
    text = rf"length of the example is built in at {__file__}:{line}: return F.interp.*int\(\)"
    x = torch.rand(1, 2, 43, 58)
    assert_fails("numbers", text, Model(patches), x, dynamic_axes=AXES, exporter=exporter)


@pytest.fixture
def float32_factors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files with the factors that torch's exporters write: we let them compute in float64."""
    monkeypatch.setattr(float_lengths, "widen", lambda program: None)
    monkeypatch.setattr(traced_numbers, "_value_of", None)


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("exporter", EXPORTERS)
def test_a_factor_made_of_lengths_is_named(
    exporter: str, quick: bool, monkeypatch: pytest.MonkeyPatch, float32_factors: None
) -> None:
    """Python divides in float64, such a file in float32, so the result may be shorter by one; also
    where the outputs are so large that the node is not searched for."""
    if not quick:
        monkeypatch.setattr(_origin, "_SECONDS", 0.0)

    def forward(x: torch.Tensor) -> torch.Tensor:
        return myops.interpolate(x, scale_factor=(x.shape[3] + 5) / x.shape[3], mode="nearest")

    x = torch.rand(1, 1, 4, 32)
    with pytest.raises(ExportCheckError) as caught:
        export(Model(forward), (x,), input_names=["x"], dynamic_axes={"x": {3: "w"}},
               exporter=exporter)  # fmt: skip
    text = str(caught.value)
    assert "register_symbolic" not in text
    assert "runtime_assert" not in text
    if quick or exporter == "dynamo":
        assert "test_guards_lengths.py:" in text
        assert "Write size=(2 * h, 2 * w) instead of a scale_factor" in text


def test_large_results_are_compared_at_a_part_of_their_elements(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A comparison takes longer than most runs, and there is one for every length."""
    monkeypatch.setattr(_difference, "_MOST", 100)
    wanted = np.random.default_rng(0).random((3, 700, 5)).astype(np.float32)
    assert _difference.compare([wanted], [wanted.copy()]) is None
    for kind in (np.float32, np.int64):
        expected, got = (1000 * wanted).astype(kind), (1000 * wanted).astype(kind)
        got[1, 350:] += 7
        found = _difference.compare([expected], [got])
        assert found is not None
        place = [int(n) for n in found.text.split("at [")[1].split("]")[0].split(",")]
        assert place[0] == 1
        assert 350 <= place[1] < 700


def test_lines_of_torch_are_none_of_the_model() -> None:
    """Its passes name themselves by a path that begins in site-packages."""
    line = 'File "{}", line 24, in f'
    assert recorded.last_place(line.format("torch/fx/passes/runtime_assert.py")) is None
    assert recorded.last_place(line.format("torch/net.py")) is not None


def test_conditions_of_torch_export_are_named() -> None:
    text = r"holds only where 14\*\(x.shape\[2\]//14\) == 42"
    assert_fails("numbers", text, Model(patches), torch.rand(1, 2, 43, 58), dynamic_axes=AXES)


def bucketed(x: torch.Tensor) -> torch.Tensor:
    bucket = (24, 104, 104)[bisect.bisect_left([24, 104], x.shape[1])]
    return F.pad(x, (0, 0, 0, bucket - x.shape[1]))


@pytest.mark.parametrize(("exporter", "title", "advised"), [
    ("dynamo", "t", "2*t"), ("torchscript", "t", "2*t"),
])  # fmt: skip
def test_advice_about_lengths_names_a_dynamic_axis(exporter: str, title: str, advised: str) -> None:
    with pytest.raises(ExportCheckError) as caught:
        export(Model(bucketed), (torch.rand(2, 18, 6),), input_names=["audio"], exporter=exporter,
               dynamic_axes={"audio": {0: "n", 1: title}})  # fmt: skip
    assert f'dynamic_axes={{"audio": {{1: "{advised}"}}}}' in str(caught.value)


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_a_branch_on_a_large_length_is_found(exporter: str) -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[2] > 555 else x + 1

    x = torch.rand(1, 1, 4, 4)
    assert_fails("numbers", "built in at", Model(forward), x, dynamic_axes=AXES, exporter=exporter)


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_an_assert_of_the_model_is_no_fault(exporter: str, no_warnings: None) -> None:
    """torch.export records the assert as a condition, and PyTorch refuses lengths that violate
    it."""

    def forward(x: torch.Tensor) -> torch.Tensor:
        assert x.shape[2] % 14 == 0, "rows come in fourteens"
        return x.reshape(x.shape[0], x.shape[1], x.shape[2] // 14, 14, x.shape[3]).mean(3)

    export(Model(forward), torch.rand(1, 2, 28, 5), dynamic_axes=AXES, exporter=exporter)


def test_an_axis_that_became_static_is_refused() -> None:
    """torch's exporter makes an axis static if torch.export suggests it."""
    graph = onnx.parser.parse_graph("g (float[2,3] x) => (float[2,3] y) { y = Neg(x) }")
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)])
    from myops.onnx import guards
    from myops.onnx.exporting.inputs import Inputs

    module = Model(lambda x: -x)
    exported = guards.Exported(
        module, Inputs(module, (torch.rand(2, 3),), {}, None), model, model, "dynamo", 20,
        dynamic=[("x", 0)],
    )  # fmt: skip
    with pytest.raises(ExportCheckError, match="axis 0 of 'x' is to be dynamic, but has"):
        guards.run(exported, ["frozen_input"])


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_equal_values_that_fill_a_longer_axis_are_ties(exporter: str, no_warnings: None) -> None:
    """The values of the example are repeated at other lengths, so there are ties."""

    def forward(x: torch.Tensor) -> torch.Tensor:
        return x.flatten(1).topk(3).indices

    export(Model(forward), torch.rand(1, 1, 5, 6), dynamic_axes=AXES, exporter=exporter)


def test_a_length_of_one_is_a_warning() -> None:
    """torch's trace writes linspace with a division by the length minus 1."""

    def forward(x: torch.Tensor) -> torch.Tensor:
        return x + torch.linspace(0, 1, x.shape[2])[:, None]

    x = torch.rand(1, 2, 6, 7)
    with pytest.warns(ExportCheckWarning, match="but not at length 1 of axis 2 of 'x'"):
        export(Model(forward), x, dynamic_axes={"x": [2]}, exporter="torchscript")


def test_an_untested_fixed_output_shape_is_a_warning() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        assert x.shape[2] == 4, "four rows"
        return torch.zeros(2, 3) + x.mean()

    with pytest.warns(ExportCheckWarning, match=r"every output has a fixed shape"):
        export(Model(forward), torch.rand(1, 1, 4, 5), dynamic_axes={"x": [2]},
               exporter="torchscript")  # fmt: skip


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
@pytest.mark.parametrize("number", [64, 224, 512])
def test_a_factor_that_is_a_quotient_of_a_length_in_float32(
    number: int, exporter: str, float32_factors: None
) -> None:
    """PyTorch computes it in float64, and floor(factor * length) is `number` at every length."""

    class Side(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return myops.interpolate(x, scale_factor=number / x.shape[2], mode="bilinear")

    with pytest.raises(ExportCheckError, match=r"shape \[.*PyTorch \["):
        myops.onnx.export(
            Side(), (torch.rand(1, 3, 16, 12),), input_names=["x"],
            dynamic_axes={"x": {2: "h", 3: "w"}}, exporter=exporter,
        )  # fmt: skip
