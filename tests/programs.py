"""Runs and builds programs, and finds the ONNX Runtimes to build them with."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnxruntime
import pytest

ROOT = Path(__file__).parents[1]
HOSTS = ROOT / "examples" / "hosts"
TOOLS = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")])


def run(*words: Any, cwd: Path | None = None, **environment: str) -> str:
    """The output of a command, stderr last. It must succeed."""
    done = attempt(*words, cwd=cwd, **environment)
    assert done.returncode == 0, f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def attempt(*words: Any, cwd: Path | None = None, **environment: str) -> Any:
    return subprocess.run(
        list(map(str, words)), cwd=cwd, env={**os.environ, "PATH": TOOLS, **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def tool(name: str) -> str:
    found = shutil.which(name, path=TOOLS)
    if found is None:
        pytest.skip(f"no {name} here")
    return found


def build(source: Path, folder: Path, *definitions: str) -> Path:
    """Runs CMake as in the README; the program has the name of the project."""
    options = [f"-D{item}" for item in definitions]
    run(tool("cmake"), "-S", source, "-B", folder, "-DCMAKE_BUILD_TYPE=Release", *options)
    run(tool("cmake"), "--build", folder)
    return folder


def debian() -> tuple[Path | None, list[str]]:
    """Debian's ONNX Runtime, or a copy that the user names: its folder, and the command with which
    a program starts. An installed package is found without a folder."""
    named = os.environ.get("MYOPS_ONNXRUNTIME")
    if named:
        return Path(named), []
    if Path("/usr/include/onnxruntime/onnxruntime_cxx_api.h").is_file():
        return None, []
    fetched = ROOT / "build" / "onnxruntime"
    if not (fetched / "run").is_file():
        pytest.skip(f"no ONNX Runtime for C++ in {fetched}; scripts/fetch_onnxruntime.sh gets it")
    return fetched, [str(fetched / "run")]


def wheel(folder: Path) -> tuple[Path, list[str]]:
    """The library in Python's own onnxruntime, laid out as a copy that the user names. The wheel
    has no headers; newer libraries take programs that were built with older ones."""
    libraries = list((Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.1.*"))
    if not libraries:
        pytest.skip(f"onnxruntime {onnxruntime.__version__} has no library in its wheel")
    root, _ = debian()
    include = root / "include" if root else Path("/usr/include/onnxruntime")
    (folder / "lib").mkdir(parents=True)
    (folder / "include").symlink_to(include)
    for name in ("libonnxruntime.so", "libonnxruntime.so.1"):
        (folder / "lib" / name).symlink_to(libraries[0])
    return folder, ["env", f"LD_LIBRARY_PATH={folder / 'lib'}"]
