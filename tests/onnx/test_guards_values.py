"""Values that could hide a wrong file: fill values, negative numbers, other dtypes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from guard_models import Model, assert_fails, exported_negation

from myops.onnx import ExportCheckError, ExportCheckWarning, export, register_symbolic
from myops.onnx.comparison import metrics
from myops.onnx.exporting.inputs import Inputs
from myops.onnx.guards import _difference, _excuses, other_lengths
from myops.onnx.guards._lengths import Group
from myops.onnx.precision import losses
from myops.onnx.symbolics.register import unregister

pytestmark = pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")


@pytest.mark.parametrize("fill", [-1e4, -1e9, float(np.finfo(np.float32).min), 65504.0])
@pytest.mark.parametrize("part", [0.02, 0.5, 0.95])
def test_fill_values_hide_no_error(fill: float, part: float, rng: np.random.Generator) -> None:
    wanted = rng.standard_normal((40, 50)).astype(np.float32)
    masked = rng.random(wanted.shape) < part
    masked[:2, :2] = [[True, True], [False, False]]
    wanted[masked] = fill
    noise = (1e-6 * rng.standard_normal(wanted.shape)).astype(np.float32)
    near = wanted + np.where(masked, 0, noise)
    assert _difference.compare([wanted], [near]) is None
    assert losses.relative_l2(wanted, near) < 1e-5
    assert losses.relative_l2(wanted, np.where(masked, 0, wanted)) > 0.5  # fill values count too
    wrong = np.where(masked, wanted, 1.01 * np.where(masked, 0, wanted)).astype(np.float32)
    assert _difference.compare([wanted], [wrong]) is not None
    assert not metrics.difference(wanted, wrong, *metrics.Tolerance().of(wanted, "float32")).agrees
    assert losses.relative_l2(wanted, wrong) == pytest.approx(0.01, rel=1e-3)
    assert losses.largest(wanted, wrong) == pytest.approx(0.01, rel=1e-3)


def test_sums_of_fill_values_hide_no_error(rng: np.random.Generator) -> None:
    """The sum of two masks and scores: -1e4 and -2e4, each plus a score."""
    scores = rng.standard_normal((40, 50))
    masks = -1e4 * (rng.random((40, 50)) < 0.3) - 1e4 * (rng.random((40, 50)) < 0.3)
    wanted = (masks + scores).astype(np.float32)
    wrong = (masks + scores + 0.05 * (masks == 0)).astype(np.float32)
    assert _difference.compare([wanted], [wrong]) is not None


@pytest.mark.parametrize("values", [[1e6, 0.0625], [3e5, 2e5, 1e5, 1e-3], [0.0, 0.0, 2e4]])
def test_a_few_large_values_are_no_fill_values(values: list[float]) -> None:
    """A remainder of a cancellation beside them is not compared relative to its own size."""
    wanted = np.float32(values)
    got = wanted.copy()
    got[np.argmin(wanted)] += np.float32(1e-7 * wanted.max())
    assert _difference.compare([wanted], [got]) is None


def test_a_built_in_length_behind_a_mask_is_found() -> None:
    """Half of the scores are masked with -1e9, which is larger than any difference."""

    def forward(x: torch.Tensor) -> torch.Tensor:
        length = x.shape[1]
        scores = x @ x.transpose(1, 2) * math.sqrt(length)
        mask = torch.ones(length, length, dtype=torch.bool).triu(1)
        return scores.masked_fill(mask, -1e9)

    text = "is not what PyTorch computes: error"
    assert_fails("numbers", text, Model(forward), torch.randn(2, 10, 4),
                 dynamic_axes={"x": {1: "length"}}, exporter="torchscript")  # fmt: skip


@pytest.mark.parametrize("x", [torch.arange(24).reshape(2, 12), torch.rand(2, 3, 8) * 9])
def test_division_towards_zero_is_found(x: torch.Tensor) -> None:
    """The example has no negative number, and neither has 1.25 times the example."""

    def towards_zero(g: Any, a: Any, b: Any) -> Any:
        whole = g.op("Cast", g.op("Div", a, g.constant(np.array(4, g.dtype(a)))), to=7)
        return g.op("CastLike", whole, a)

    register_symbolic("aten::floor_divide", towards_zero)
    try:
        assert_fails("numbers", "with x all negative", Model(lambda x: x // 4), x,
                     exporter="torchscript")  # fmt: skip
    finally:
        unregister("aten::floor_divide")


def test_models_that_refuse_negative_inputs_are_accepted(no_warnings: None) -> None:
    """PyTorch refuses negative indices, so these are not compared."""
    table = torch.nn.Embedding(9, 4)
    ids = torch.randint(0, 9, (2, 5), generator=torch.Generator().manual_seed(0))
    assert export(table, ids, exporter="torchscript").graph.node


def test_another_dtype_is_a_difference() -> None:
    found = _difference.compare([np.int32([1, 2])], [np.int64([1, 2])])
    assert found is not None
    assert found.text == "dtype int64, PyTorch int32"


def test_resize_with_other_rounding_is_refused() -> None:
    """26 -> 2 rows: ONNX Runtime takes row 12, PyTorch 13."""

    def forward(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, size=(-(-x.shape[2] // 14), -(-x.shape[3] // 7)))

    x, axes = torch.randn(2, 3, 24, 20), {"x": {2: "h", 3: "w"}}
    options: dict[str, Any] = {"dynamic_axes": axes, "exporter": "torchscript"}
    assert_fails("numbers", "register_interpolate=True", Model(forward), x, **options)
    assert export(Model(forward), x, register_interpolate=True, **options).graph.node


# -- choices and shapes that are not the example's ---------------------------------------------


class Peaks(torch.nn.Module):
    """As in CenterNet: a small image has fewer peaks than requested, and zeros for the others."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        peaks = (F.max_pool2d(x, 3, 1, 1) == x) * x
        values, places = peaks.flatten(1).topk(10)
        return values + torch.div(places, x.shape[3], rounding_mode="floor")


def test_equal_values_in_another_order_are_a_warning() -> None:
    x = torch.rand(1, 4, 12, 10, generator=torch.Generator().manual_seed(0))
    axes = {"x": {2: "h", 3: "w"}}
    with pytest.warns(ExportCheckWarning, match="give equal values in any order"):
        exported = export(Peaks(), x, dynamic_axes=axes, exporter="torchscript")
    assert exported.graph.node


def test_a_fault_beside_equal_values_is_refused() -> None:
    class Wrong(Peaks):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) + int(x.shape[2])

    x = torch.rand(1, 4, 12, 10, generator=torch.Generator().manual_seed(0))
    assert_fails("numbers", "is not what PyTorch computes", Wrong(), x,
                 dynamic_axes={"x": {2: "h"}}, exporter="torchscript")  # fmt: skip


def test_output_shapes_have_no_length_of_the_example() -> None:
    """torch's trace of attention states the example's lengths for its result, also for dynamic
    axes."""

    def forward(x: torch.Tensor) -> torch.Tensor:
        q, k, v = x.unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)

    axes = {"x": {0: "batch", 1: "length"}}
    exported = export(
        Model(forward), torch.rand(2, 5, 24), dynamic_axes=axes, exporter="torchscript"
    )
    first, second, last = exported.graph.output[0].type.tensor_type.shape.dim
    assert not first.HasField("dim_value")
    assert not second.HasField("dim_value")
    assert last.dim_value in (0, 8)  # a name, where the inference of shapes does not know it


def test_large_lengths_are_skipped_if_they_take_too_long() -> None:
    """Three long axes at once would take all the time of the search."""
    exported = exported_negation(20, 20)
    exported.inputs = Inputs(exported.model, (torch.rand(10, 10, 10),), {}, None)
    exported.seconds = 0.01
    axes = [Group([(("x", axis), 10)]) for axis in range(3)]
    search = other_lengths._Search(exported, axes)
    assert search.affordable({("x", 0): 500})
    assert not search.affordable({("x", axis): 100 for axis in range(3)})


def test_a_warning_names_the_line_of_the_caller() -> None:
    with pytest.warns(ExportCheckWarning) as caught:
        export(Model(lambda x: torch.rand_like(x)), torch.rand(3), exporter="torchscript")
    assert {item.filename for item in caught} == {__file__}


class Counting(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("scale", torch.full((), torch.nan))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return x * self.count


@pytest.mark.filterwarnings("ignore:ONNX Preprocess")
def test_a_model_with_state_is_a_warning() -> None:
    with pytest.warns(ExportCheckWarning, match="forward changes 'count'. A file keeps nothing"):
        export(Counting(), torch.rand(3), exporter="torchscript")


@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
def test_weights_that_forward_changes_are_refused(exporter: str) -> None:
    """In the file, only the rows that the example reads would be within the norm."""
    model = torch.nn.Embedding(5, 4, max_norm=0.1)
    rows = torch.tensor([0, 1])
    with pytest.raises((ExportCheckError, RuntimeError), match="max_norm"):
        export(model, rows, exporter=exporter)
    if exporter == "torchscript":
        with pytest.warns(ExportCheckWarning, match="forward changes 'weight'"):
            export(model, rows, exporter=exporter, skip_checks=["numbers"])
    model.weight.data.renorm_(model.norm_type, 0, model.max_norm)
    model.max_norm = None
    export(model, rows, exporter=exporter)


def test_data_parallel_and_compiled_modules_are_exported() -> None:
    """The forward function of the wrapper names no parameters."""
    x, axes = torch.rand(2, 3), {"input": {0: "batch"}}
    for wrap in (torch.nn.DataParallel, lambda m: torch.compile(m, backend="eager")):
        exported = export(wrap(torch.nn.Linear(3, 4)), x, dynamic_axes=axes, exporter="torchscript")
        assert exported.graph.input[0].name == "input"


class Centred(torch.nn.Module):
    """From -1 to 1: NaN where there is one column."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        places = torch.arange(x.shape[1]) * 2 / (x.shape[1] - 1) - 1
        return torch.nan_to_num(x) + (places if self.right else places.nan_to_num(7.0))

    right = True


def test_nan_in_the_result_of_pytorch_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model computes 0 / 0, and the file computes another value."""
    x, axes = torch.rand(3, 2), {"x": {1: "columns"}}
    model, traced = Centred(), Model(lambda x: x)
    traced.forward = lambda x: model(x)  # type: ignore[method-assign]
    program = export(traced, x, dynamic_axes=axes, exporter="torchscript", skip_checks="all")
    item = exported_negation(20, 20)
    item.final, item.model, item.base = program, model, [np.zeros((3, 2), np.float32)]
    wanted = np.float32([[1.0, np.nan], [2.0, 3.0]])
    got = np.float32([[1.0, 7.0], [2.0, 3.0]])
    assert "PyTorch's own result has NaN" in _excuses._no_number(item, [wanted], [got])
    assert _excuses._no_number(item, [wanted], [got + np.float32(1)]) == ""  # others differ too
    assert _excuses._no_number(item, [got], [wanted]) == ""  # NaN in the file
    item.base = [wanted]  # the example has NaN as well
    assert _excuses._no_number(item, [wanted], [got]) == ""


class Attending(torch.nn.Module):
    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(x, x, x, attn_mask=mask[:, None, None, :])


class Counted(Attending):
    """Attends to the first positions; to none if the count is negative."""

    def forward(self, x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
        mask = torch.arange(x.shape[2]) < count[:, None]
        return super().forward(x, torch.where(mask, 0.0, -torch.inf))


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_attention_with_everything_masked_is_a_warning(exporter: str) -> None:
    args = torch.rand(2, 1, 5, 4), torch.tensor([2, 4])
    with pytest.warns(ExportCheckWarning, match="gives 0 where a mask leaves no place"):
        export(Counted(), args, exporter=exporter)


def test_a_fault_in_attention_is_refused() -> None:
    class Doubled(Attending):
        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return super().forward(x, mask) * (2 if mask.all() else 3)

    args = torch.rand(2, 1, 5, 4), torch.ones(2, 5, dtype=torch.bool)
    assert_fails("frozen_input", "with another value of", Doubled(), *args, exporter="torchscript")


class Best(torch.nn.Module):
    """As CenterNet takes the best places of a map."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.topk((0.002 * x).sigmoid().flatten(1), 6)


def test_choices_among_saturated_values_are_a_warning() -> None:
    x = torch.rand(1, 6, 8, generator=torch.Generator().manual_seed(1)) * 2 - 3
    with pytest.warns(ExportCheckWarning, match="takes the largest of numbers that saturate"):
        export(Best(), x, exporter="torchscript")


class LargestOfDistinct(torch.nn.Module):
    """The file is right at the example and wrong for large values, because a trace sees one
    branch."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = 2.0 if x.abs().max() > 100 else 1.0
        return scale * torch.topk(x, 3).values


def test_a_fault_in_topk_of_distinct_values_is_refused() -> None:
    x = torch.randn(2, 3, 9, generator=torch.Generator().manual_seed(1))
    assert_fails("numbers", "times as large", LargestOfDistinct(), x, exporter="torchscript")
