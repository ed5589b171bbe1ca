"""What mypy and pyright know of the public names, and what `dir` shows."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import myops
import myops.onnx
import myops.ort

ROOT = Path(__file__).parents[1]

PROGRAM = """
import torch

import myops
import myops.nn
import myops.onnx
import myops.ort

x = torch.ones(1, 2, 3, 4)
y: torch.Tensor = myops.my_add(x, x)
y = myops.interpolate(x, scale_factor=torch.tensor(2.0), mode="bilinear")
y = myops.resize(x, [1, 1, 2, 2], mode="cubic", axes=None)
y = myops.deform_conv2d(x, y, x, stride=(1, 2), padding=1)
y = myops.nn.DeformConv2d(2, 2, 3)(x, y)
path: str = myops.ort.get_library_path()
"""
WRONG = [
    "s: str = myops.my_add(x, x)",
    "myops.interpolatee(x, 2)",
    "myops.my_add(x)",
    "myops.my_add(x, 'x')",
    "myops.interpolate(x, 2, mode=3)",
    "myops.resize(x, scale=[1, 1, 2, 2])",
    "myops.deform_conv2d(x, x)",
    "n: int = myops.ort.get_library_path()",
    "myops.ort.sesion('x')",
    "myops.onnx.exprt(x)",
]
CHECKERS = {
    "mypy": ["-m", "mypy", "--no-incremental"],
    "pyright": ["-m", "basedpyright", "--level", "error"],
}


@pytest.mark.parametrize("checker", CHECKERS)
def test_type_checkers(checker: str, tmp_path: Path) -> None:
    first = PROGRAM.count("\n") + 1
    program = tmp_path / "program.py"
    program.write_text(PROGRAM + "\n".join(WRONG) + "\n")
    # As for the installed package: nothing of this repository's settings.
    (tmp_path / "pyproject.toml").write_text(
        f'[tool.basedpyright]\ntypeCheckingMode = "standard"\nextraPaths = ["{ROOT}/python"]\n'
        "[tool.mypy]\nignore_missing_imports = true\n"
    )
    done = subprocess.run(
        [sys.executable, *CHECKERS[checker], "program.py"], cwd=tmp_path, capture_output=True,
        text=True, check=False, timeout=600, env={**os.environ, "MYPYPATH": f"{ROOT}/python"},
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    found = [line for line in done.stdout.splitlines() if "error" in line and "program.py:" in line]
    lines = [int(line.split("program.py:")[1].split(":")[0]) for line in found]
    assert sorted(set(lines)) == list(range(first, first + len(WRONG))), done.stdout


def test_stub_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("make_stubs", ROOT / "scripts" / "make_stubs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.FILE.read_text() == module.stub(), "run: python scripts/make_stubs.py"


@pytest.mark.parametrize("module", [myops, myops.onnx, myops.ort])
def test_dir_shows_public_names_only(module: ModuleType) -> None:
    names = dir(module)
    assert not [name for name in names if name.startswith("_") and not name.startswith("__")]
    assert not {"annotations", "functools", "importlib", "Any", "TYPE_CHECKING", "os"} & set(names)
    for name in names:
        assert hasattr(module, name)
