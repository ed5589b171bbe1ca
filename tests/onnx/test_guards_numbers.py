"""The check "numbers" of myops.onnx.export."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from guard_models import A, AddFunction, B, Model, assert_fails, exported_negation

from myops.onnx import ExportCheckWarning, export, guards
from myops.onnx.graph import files
from myops.onnx.guards import _difference, _excuses

EXPORTERS = ["dynamo", "torchscript"]


pytestmark = pytest.mark.usefixtures("no_warnings")


add = AddFunction.apply


# -- numbers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_a_branch_on_a_length_is_refused(exporter: str) -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] > 2 else x + 1

    text = r"with x of shape \[3, 3\] output '.*' is not what PyTorch computes: error "
    axes = {"x": [0]}
    x = torch.rand(2, 3)
    assert_fails("numbers", text, Model(forward), x, dynamic_axes=axes, exporter=exporter)


def test_a_built_in_length_is_refused() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x + torch.zeros(int(x.shape[0]), 3)

    text = "exported model fails, so it is not as dynamic as its axes say"
    options: dict[str, Any] = {"dynamic_axes": {"x": [0]}, "exporter": "torchscript"}
    assert_fails("numbers", text, Model(forward), torch.rand(2, 3), **options)


def test_a_wrong_symbolic_is_refused() -> None:
    class Wrong(AddFunction):
        @staticmethod
        def symbolic(g: Any, a: Any, b: Any) -> Any:
            return g.op("Sub", a, b)

    text = r"at the example inputs output .* at \[\d, \d\]: .*allowed there: .* for float32"
    model = Model(lambda a, b: Wrong.apply(a, b))
    assert_fails("numbers", text, model, A, B, exporter="torchscript")


def test_a_wrong_dtype_is_no_rounding() -> None:
    """Its numbers differ by less than a few roundings of the inputs do."""

    class Wide(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, a: torch.Tensor) -> torch.Tensor:
            return a.double()

        @staticmethod
        def symbolic(g: Any, a: Any) -> Any:
            return g.op("Identity", a)

    text = "dtype float32, PyTorch float64"
    model = Model(lambda a: Wide.apply(a) * 2)
    assert_fails("numbers", text, model, torch.rand(5, 3), exporter="torchscript")


def test_the_reported_position_has_the_largest_excess() -> None:
    # the first error is the larger one, and allowed: 1e-4 of 1000 and of the mean
    found = _difference.compare([np.float32([1000, 1])], [np.float32([1000.12, 1.1])])
    assert found is not None
    assert "at [1]: 1.1, PyTorch 1;" in found.text


def test_lengths_that_the_model_refuses_are_not_compared() -> None:
    """A network that takes even lengths only, and one that takes no other length."""

    def halves(x: torch.Tensor) -> torch.Tensor:
        return F.max_pool2d(x, 2).repeat_interleave(2, 2).repeat_interleave(2, 3) + x

    axes = {"x": {2: "height", 3: "width"}}
    x = torch.rand(1, 1, 4, 4)
    export(Model(halves), x, dynamic_axes=axes, exporter="torchscript")

    def fixed(x: torch.Tensor) -> torch.Tensor:
        assert x.shape[3] == 4, "four columns"
        return x.flip(3)

    with pytest.warns(ExportCheckWarning, match="PyTorch refused all other lengths.*four columns"):
        export(Model(fixed), x, dynamic_axes={"x": {3: "width"}}, exporter="torchscript")


def test_lengths_outside_of_declared_limits_are_not_tried() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        assert x.shape[0] <= 3
        return x * 2

    batch = torch.export.Dim("batch", min=2, max=3)
    export(Model(forward), torch.rand(3, 2), dynamic_shapes={"x": {0: batch}})


def test_a_missing_library_is_named() -> None:
    options: dict[str, Any] = {"exporter": "torchscript"}
    text = r"ONNX Runtime knows no operator acme::MyAdd.*libraries="
    model = Model(lambda a, b: add(a, b))
    assert_fails("numbers", text, model, A, B, **options)


def test_a_library_of_the_caller_is_used() -> None:
    extensions = pytest.importorskip("onnxruntime_extensions")

    class Inverse(torch.autograd.Function):
        @staticmethod
        def symbolic(g: Any, a: Any) -> Any:
            return g.op("ai.onnx.contrib::Inverse", a)

        @staticmethod
        def forward(ctx: Any, a: torch.Tensor) -> torch.Tensor:
            return torch.linalg.inv(a)

    x = torch.eye(3) + 0.1 * torch.rand(3, 3)
    model = Model(lambda a: Inverse.apply(a))
    assert_fails("numbers", "ai.onnx.contrib::Inverse", model, x, exporter="torchscript")
    library = extensions.get_library_path()
    export(model, x, exporter="torchscript", libraries=[library])


def test_dtypes_without_a_kernel_are_a_warning() -> None:
    export(torch.nn.Linear(4, 4).half(), A.half(), exporter="torchscript")
    with pytest.warns(ExportCheckWarning, match="not run in ONNX Runtime: .*NOT_IMPLEMENTED"):
        export(torch.nn.Linear(4, 4).bfloat16(), A.bfloat16(), exporter="torchscript")


def test_a_model_over_2_gb_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    exported = exported_negation(17, 17)
    monkeypatch.setattr(files, "LIMIT", 10)
    with pytest.warns(ExportCheckWarning, match="larger than 2 GB"):
        guards.run(exported, ["numbers"])


def test_an_error_where_the_expected_value_is_zero() -> None:
    found = _difference.compare([np.zeros(3)], [np.array([0, 1e6, 0])])
    assert found is not None
    assert "error 1e+06 (relative inf) at [1]" in found.text


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_errors_within_the_tolerance_of_a_dtype_are_accepted(
    dtype: str, rng: np.random.Generator
) -> None:
    wanted = rng.standard_normal((4, 5)).astype(dtype)
    allowed = _difference.TOLERANCES[dtype]
    near = wanted.copy()
    near[1, 2] += 0.5 * allowed * np.abs(wanted).mean()
    assert _difference.compare([wanted], [near]) is None
    far = wanted.copy()
    far[1, 2] += 5 * allowed * (1 + np.abs(wanted[1, 2]))
    found = _difference.compare([wanted, wanted], [wanted, far])
    assert found is not None
    assert found.output == 1
    assert "[1, 2]" in found.text


@pytest.mark.parametrize(
    ("wanted", "got", "text"),
    [
        (np.float32([1, np.nan]), np.float32([1, np.nan]), ""),
        (np.float32([np.inf, 1]), np.float32([np.inf, 1]), ""),
        (np.float32([1, np.nan]), np.float32([1, 2]), "2.0 at [1], PyTorch nan"),
        (np.float32([1, 2]), np.float32([1, np.nan]), "nan at [1], PyTorch 2.0"),
        (np.float32([np.inf]), np.float32([-np.inf]), "-inf at [0], PyTorch inf"),
        (np.zeros(3, np.float32), np.zeros((3, 1), np.float32), "shape [3, 1], PyTorch [3]"),
        (np.int64([1, 2]), np.int64([1, 3]), "1 of 2 values differ, first at [1]: 3, PyTorch 2"),
        (np.arange(2000), np.maximum(np.arange(2000), 1), ""),
        (np.float32([]), np.float32([]), ""),
    ],
)
def test_equal_and_unequal_results_of_every_kind(wanted: Any, got: Any, text: str) -> None:
    found = _difference.compare([wanted], [got])
    assert ("" if found is None else found.text) == text


# -- differences that are no fault of the file --------------------------------------------------


class Amplifying(torch.nn.Module):
    """Sums times a large factor, so that the last bits of the sum change the third digit."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.sum = torch.nn.Linear(256, 256, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(self.sum(x) * 3e4)


def test_amplified_rounding_is_a_warning() -> None:
    x = torch.rand(4, 256, generator=torch.Generator().manual_seed(0))
    with pytest.warns(ExportCheckWarning, match="changes by as much when the inputs change by a f"):
        exported = export(Amplifying(), x, exporter="torchscript", dynamic_axes={"x": [0]})
    assert exported.graph.node


def test_a_fault_in_an_amplifying_model_is_refused() -> None:
    """The mean of the difference is then far larger than rounding."""

    class Wrong(Amplifying):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) + 0.1 * int(x.shape[0])

    x = torch.rand(4, 256, generator=torch.Generator().manual_seed(0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_fails("numbers", "is not what PyTorch computes", Wrong(), x,
                     exporter="torchscript", dynamic_axes={"x": [0]})  # fmt: skip


@pytest.mark.parametrize("wrong", [0, 1])
def test_a_tie_excuses_nothing_else(wrong: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounding may change one element; errors in other elements are faults."""
    wanted, moved, got = np.zeros(1000), np.zeros(1000), np.zeros(1000)
    moved[3] = got[3] = 1.0
    got[500:] += 0.5 * wrong
    exported = exported_negation(20, 20)
    monkeypatch.setattr(exported, "torch_run", lambda changes, watch=None: [moved])
    assert bool(_excuses.excuse(exported, {}, [wanted], [got])) != bool(wrong)


@pytest.mark.parametrize("value", [0.0, 1e-30])
def test_noise_excuses_nothing_next_to_zero(value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """x / max(x, 1e-9) is 0 at 0 and 1 for larger x, so a file that gives 1 is wrong."""
    exported = exported_negation(20, 20)
    changes = {exported.inputs.slots[0].name: torch.full((4, 5), value)}

    def torch_run(changes: dict[str, torch.Tensor], watch: Any = None) -> list[Any]:
        (x,) = changes.values()
        return [(x / x.clamp(min=1e-9)).numpy()]

    monkeypatch.setattr(exported, "torch_run", torch_run)
    wrong = [np.ones((4, 5), np.float32)]
    assert not _excuses.excuse(exported, changes, torch_run(changes), wrong)


def test_results_that_noise_makes_infinite_excuse_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted, moved, got = np.ones(10), np.full(10, np.inf), np.full(10, 1e6)
    exported = exported_negation(20, 20)
    monkeypatch.setattr(exported, "torch_run", lambda changes, watch=None: [moved])
    assert not _excuses.excuse(exported, {}, [wanted], [got])


class HalfInside(torch.nn.Module):
    """float16 in the middle of a model of float32."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Conv2d(3, 8, 3).half(), torch.nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.first(x.half()).float().mean((2, 3)))


def test_the_narrowest_dtype_decides_the_tolerance() -> None:
    torch.manual_seed(0)
    export(HalfInside(), torch.rand(1, 3, 8, 9), exporter="torchscript")
    wanted, got = np.float32([1.0, 2.0]), np.float32([1.0, 2.002])
    assert _difference.compare([wanted], [got]) is not None
    with _difference.of_narrowest({"float32", "float16"}):
        assert _difference.compare([wanted], [got]) is None
        assert _difference.compare([wanted], [got + np.float32(0.2)]) is not None
    with _difference.of_narrowest({"float64"}):
        assert _difference.compare([wanted], [got]) is not None
