"""myops.onnx.export prints nothing, and imports what it needs in any order."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import warm
from export_models import EXPORTERS, Twice

from myops.onnx import export

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
