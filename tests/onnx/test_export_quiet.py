"""myops.onnx.export prints nothing, and imports what it needs in any order."""

from __future__ import annotations

import logging
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import warm
from export_models import EXPORTERS, Twice

import myops
from myops.onnx import MissingBodyWarning, export
from myops.ort import pyop_session

pytestmark = pytest.mark.usefixtures("no_warnings_at_all")


@pytest.fixture
def logged() -> Iterator[list[logging.LogRecord]]:
    """What any logger is told from level WARNING on."""
    records: list[logging.LogRecord] = []

    class Handler(logging.Handler):
        emit = staticmethod(records.append)

    handler = Handler(logging.WARNING)
    known = [logging.getLogger(name) for name in logging.root.manager.loggerDict]
    loggers = [logging.root, *(logger for logger in known if not logger.propagate)]
    for logger in loggers:
        logger.addHandler(handler)
    yield records
    for logger in loggers:
        logger.removeHandler(handler)


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_export_prints_nothing(exporter: str, capfd: Any, logged: list[logging.LogRecord]) -> None:
    level = logging.getLogger("torch.onnx").level
    export(Twice(), torch.rand(1, 1, 4, 4), opset_version=17, exporter=exporter)
    assert capfd.readouterr() == ("", "")
    assert not logged
    assert logging.getLogger("torch.onnx").level == level


def test_no_warning_that_torchvision_is_not_installed(tmp_path: Path) -> None:
    """In processes of their own, because torch's exporter warns of it only once in a process."""
    program = (
        "import sys, torch\n"
        "from torch.onnx._internal.exporter import _registration\n"
        "find = _registration.importlib.util.find_spec\n"
        "_registration.importlib.util.find_spec = "
        "lambda name, *more: None if name == 'torchvision' else find(name, *more)\n"
        "import myops\n"
        "model, x = torch.nn.Identity().eval(), torch.rand(3)\n"
        "if sys.argv[1] == 'torch':\n"
        "    torch.onnx.export(model, (x,), sys.argv[2], dynamo=True, verbose=False)\n"
        "else:\n"
        "    myops.onnx.export(model, x, sys.argv[2], exporter='dynamo')\n"
    )
    stderr_of = {}
    for by in ("torch", "myops"):
        done = warm.run("-c", program, by, tmp_path / f"{by}.onnx")
        assert done.returncode == 0, done.stderr
        stderr_of[by] = done.stderr
    assert "torchvision is not installed" in stderr_of["torch"]  # or this test would show nothing
    assert stderr_of["myops"] == ""


class ReturnsWeight(torch.nn.Module):
    """onnx_ir logs a warning about a weight among the outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x + self.weight, self.weight


def test_no_warning_about_a_weight_as_output(capfd: Any, logged: list[logging.LogRecord]) -> None:
    export(ReturnsWeight(), torch.rand(3), exporter="dynamo")
    assert capfd.readouterr() == ("", "")
    assert not logged


@pytest.mark.parametrize("first", ["_registration", "_torchlib._torchlib_registry", "_core"])
def test_translations_are_registered_in_any_import_order(first: str) -> None:
    """Because modules of torch's exporter import each other."""
    program = (
        f"import myops\nimport torch.onnx._internal.exporter.{first}\n"
        "from torch.onnx._internal.exporter._torchlib._torchlib_registry import _registry\n"
        "names = [str(item.fx_target) for item in _registry]\n"
        "assert names.count('myops.my_add.default') == 1, names\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_lowering_does_not_import_torch() -> None:
    """Only `export` imports torch's exporters."""
    code = (
        "import sys, myops.onnx as o; o.register_schemas; o.LoweringError; o.MissingBodyWarning; "
        "o.lower; o.add_function_bodies; print('torch' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "False"


def count_below(x: Any, edges: Any) -> Any:
    index = np.searchsorted(edges, x)
    return index, np.bincount(index.reshape(-1), minlength=len(edges) + 1)


COUNT_BELOW = myops.prototype(
    count_below,
    domain="export_quiet",
    types={"T": ["float32"], "I": ["int64"]},
    inputs=[myops.Input("x", "T", "."), myops.Input("edges", "T", ".")],
    outputs=[myops.Output("index", "I", "."), myops.Output("counts", "I", ".")],
    shape="S..., E -> S..., (E + 1)",
    standard=lambda g: g.refuse("it is not needed here"),
)


class Buckets(torch.nn.Module):
    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> Any:
        index, counts = COUNT_BELOW(x, edges)
        return index / 2, counts * 0.5


@pytest.mark.parametrize("scripted", [False, True])
def test_outputs_of_a_dtype_that_no_input_has(scripted: bool, capfd: Any, tmp_path: Path) -> None:
    """torch warned that their types are missing; a scripted program with them was not exported."""
    args = torch.rand(3, 4), torch.tensor([0.2, 0.5, 0.9])
    path = str(tmp_path / "model.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingBodyWarning)
        warnings.simplefilter("ignore", DeprecationWarning)  # of scripts
        model = torch.jit.script(Buckets()) if scripted else Buckets()
        export(model, args, path, exporter="torchscript", input_names=["x", "edges"])
    assert capfd.readouterr() == ("", "")
    feed = {"x": args[0].numpy(), "edges": args[1].numpy()}
    for found, expected in zip(pyop_session(path).run(None, feed), Buckets()(*args), strict=True):
        np.testing.assert_array_equal(found, expected.numpy(), strict=True)
