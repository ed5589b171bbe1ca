"""A library of one test op, with a domain of its own: what a third party would build."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def probe_library(tmp_path_factory: pytest.TempPathFactory) -> str:
    """tests/native/probe_op.cpp as an ONNX Runtime library with the domain "probe"."""
    csrc = ROOT / "csrc"
    folders = [csrc / "core", csrc / "adapters" / "ort"]
    sources = [source for folder in folders for source in sorted(folder.glob("*.cpp"))]
    library = tmp_path_factory.mktemp("probe") / "libprobe.so"
    command = [os.environ.get("CXX") or shutil.which("c++") or "g++", "-std=c++17", "-O0", "-fPIC"]
    command += ["-shared", "-fvisibility=hidden", '-DMYOPS_DOMAIN="probe"']
    command += [f"-I{csrc / 'include'}", *map(str, sources)]
    command += [str(ROOT / "tests/native/probe_op.cpp"), "-o", str(library)]
    command.append(f"-Wl,--version-script={ROOT / 'cmake/ort_exports.map'},-z,defs")
    subprocess.run(command, check=True)
    return str(library)
