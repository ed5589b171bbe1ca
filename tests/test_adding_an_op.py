"""Adding an op edits no existing file: three new files are put into a copy of the tree, the op runs
in every runtime, and the tests that exist for each op run for it. Nor does removing ops: of our own
ops, the copy has only one, because the others take minutes to compile."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from installed import cached

pytestmark = pytest.mark.slow  # it compiles the library again

ROOT = Path(__file__).parents[1]
NEW = ROOT / "tests" / "data" / "new_op"
KEPT = {"my_add", "my_add.py", "__init__.py"}


def test_a_new_op_runs_in_every_runtime(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    for name in ("csrc", "cmake", "python", "scripts", "tests"):
        ignored = shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info")
        shutil.copytree(ROOT / name, tree / name, ignore=ignored)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)

    for folder in (tree / "csrc" / "ops", tree / "python" / "myops" / "ops"):
        for item in folder.iterdir():
            if item.is_dir() and item.name not in KEPT:
                shutil.rmtree(item)
            elif item.name not in KEPT:
                item.unlink()
    folder = tree / "csrc" / "ops" / "scaled_tanh"
    folder.mkdir()
    shutil.copy(NEW / "scaled_tanh.cpp", folder)
    shutil.copy(NEW / "scaled_tanh.py", tree / "python" / "myops" / "ops")
    shutil.copy(NEW / "test_scaled_tanh.py", tree / "tests" / "ops")

    script = tree / "setup.py"
    assert 'folder="lib")' in script.read_text()
    fast = 'folder="lib", extra_compile_args=["-O0"])'  # compiled sooner
    script.write_text(script.read_text().replace('folder="lib")', fast))
    # This module contains no op, and torch's headers take long to compile.
    assert "[*ours, torch_internals()]" in script.read_text()
    script.write_text(script.read_text().replace("[*ours, torch_internals()]", "ours"))
    for file in (ROOT / "python" / "myops").glob("_internals_*.so"):
        shutil.copy(file, tree / "python" / "myops")

    environment = {**os.environ, **cached(tree), "PYTHONPATH": str(tree / "python")}
    environment.pop("MYOPS_TEST_SECONDS", None)  # this test's time includes those of the others
    build = [sys.executable, "setup.py", "build_ext", "--inplace"]
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
           "tests/ops/test_scaled_tanh.py"]  # fmt: skip
    # These tests are made for each op of the library; texts are not part of the copy.
    of_each = [*run[:-1], "-k", "scaled_tanh", "tests/test_contract.py",
               "tests/ort/test_attribute_kinds.py"]  # fmt: skip
    stub = [sys.executable, "scripts/make_stubs.py"]
    for command in (build, run, of_each, stub):
        done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
    assert "import scaled_tanh as scaled_tanh" in (tree / "python/myops/__init__.pyi").read_text()
