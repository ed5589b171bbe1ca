"""Models that `export` refuses are wrong in the matrix, and the reverse: both use the same
checks."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from guard_models import AddFunction, Model
from pairs import covering
from torch import nn

import myops
import myops.onnx
from myops.onnx.matrix import Case, opset_matrix
from myops.onnx.matrix.cells import LOAD_ERROR, LOST, OK, REFUSED, WARNED, WRONG

X = torch.rand(2, 3, 6, 5) + 0.5
BAD = {LOST, WARNED, WRONG}


def enlarged(x: Any, factor: Any) -> Any:
    return torch.nn.functional.interpolate(x, scale_factor=factor.item(), mode="nearest")


def branching(x: Any, limit: Any) -> Any:
    return x * 2 if float(x.mean()) > float(limit) else x - 3


def by_length(x: Any) -> Any:
    return x / int(x.shape[2]) if torch.jit.is_tracing() else x / x.shape[2]


def split_by_length(x: Any) -> Any:
    return sum(x[:, :, row] for row in range(x.shape[2]))


# name -> the model, its inputs, axes of the first that are dynamic
MODELS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], tuple[int, ...]]] = {
    "right": (lambda x: torch.relu(x), (X,), ()),
    "right, dynamic": (lambda x: x.flatten(1).sum(1), (X,), (0, 3)),
    "right, two inputs": (lambda x, y: x * y, (X, torch.tensor(2.0)), ()),
    "ours": (lambda x, y: myops.my_add(x, y), (X, X * 2), ()),
    "factor.item()": (enlarged, (X, torch.tensor(2.0)), ()),
    "a number": (lambda x, factor: x * float(factor), (X, torch.tensor(2.0)), ()),
    "a Python number": (lambda x, gain: x * float(gain), (X, 1.5), ()),
    "a branch": (branching, (X, torch.tensor(0.5)), ()),
    "an index": (lambda x, place: x[:, int(place)], (X, torch.tensor(1)), ()),
    "a dropped input": (lambda x, y: x + y.detach().numpy().sum().item(), (X, X[0]), ()),
    "a length": (by_length, (X,), (2,)),
    "a loop over a length": (split_by_length, (X,), (2,)),
    "a lost operator": (lambda a, b: AddFunction.apply(a, b).relu(), (X, X), ()),
}


@functools.cache
def refused(name: str, exporter: str) -> bool:
    """Whether `export` refuses the model, also because torch cannot export it."""
    function, args, axes = MODELS[name]
    names = {"x": {axis: f"length{axis}" for axis in axes}} if axes else None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            myops.onnx.export(
                Model(function), args, exporter=exporter, opset_version=18, dynamic_axes=names
            )
    except (ValueError, RuntimeError):
        return True
    return False


def measured(name: str, exporter: str, through: str, **options: Any) -> Any:
    function, args, axes = MODELS[name]
    other = []
    if axes:  # a wrong file may be right at these lengths by chance; the checks try more
        shape = list(X.shape)
        for axis in axes:
            shape[axis] += 1
        other = [(torch.rand(shape) + 0.5, *args[1:])]
    case = Case(Model(function), args, run_at=other, through=through, **options)
    return opset_matrix({name: case}, [18], [exporter]).cells[0]


@pytest.mark.parametrize(
    ("name", "exporter", "through"),
    covering([*MODELS], ["torchscript", "dynamo"], ["torch", "myops"]),
)
def test_the_matrix_and_export_agree(name: str, exporter: str, through: str) -> None:
    cell = measured(name, exporter, through)
    built_in = name == "a Python number" and through == "torch"  # where export makes it an input
    if refused(name, exporter) or built_in:
        unknown = {LOAD_ERROR} if name == "a lost operator" else set()  # ONNX Runtime lacks it
        assert cell.verdict in BAD | {REFUSED} | unknown, cell
        assert cell.reason
    elif not (through == "torch" and cell.verdict == REFUSED):  # export knows more ways
        assert cell.verdict == OK, cell


def test_the_models_are_both_accepted_and_refused() -> None:
    """Otherwise the test above could not fail."""
    found = {name: refused(name, "torchscript") for name in MODELS}
    assert {"right", "right, dynamic", "right, two inputs", "ours"} == {
        name for name, bad in found.items() if not bad and name != "a lost operator"
    }
    assert measured("a lost operator", "dynamo", "torch").verdict == LOST


@pytest.mark.parametrize(("options", "verdict"), [
    ({}, BAD), ({"constants": ["gain"]}, {OK}), ({"checks": False}, {OK}),
])  # fmt: skip
def test_constants_and_checks_options_accept_a_fixed_number(
    options: dict[str, Any], verdict: set[str]
) -> None:
    assert measured("a Python number", "torchscript", "torch", **options).verdict in verdict


def test_the_tolerance_applies_to_the_checks() -> None:
    class Rough(nn.Module):
        def forward(self, x: Any) -> Any:
            return x * (1.003 if torch.onnx.is_in_onnx_export() else 1.0)

    def verdict(tolerance: float | None) -> str:
        cases = {"rough": (Rough(), (X,))}
        return opset_matrix(cases, [17], ["torchscript"], tolerance=tolerance).cells[0].verdict

    assert verdict(None) == WRONG
    assert verdict(0.01) == OK
    assert verdict(None) == WRONG  # what was allowed before holds again


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_dtypes_pass_through_the_checks(dtype: torch.dtype) -> None:
    cases = {"cat": (lambda x: torch.cat([x, x]), (torch.randn(4).to(dtype),))}
    assert opset_matrix(cases, [17], ["torchscript"]).cells[0].verdict == OK


def test_command_fails_on_a_wrong_cell(tmp_path: Path) -> None:
    from test_matrix_report import run

    (tmp_path / "net.py").write_text(
        "import torch\n"
        "class Net(torch.nn.Module):\n"
        "    def forward(self, x, factor):\n"
        "        return x * float(factor)\n"
        "frozen = Net(), (torch.rand(3), torch.tensor(2.0))\n"
    )
    words = [f"{tmp_path / 'net.py'}:frozen", "--opsets", "18", "--exporter", "torchscript"]
    assert run(*words).exit_code == 0
    done = run(*words, "--fail-on", "wrong", "--details")
    assert done.exit_code == 1
    assert "factor" in done.stdout
