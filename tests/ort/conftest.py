"""Fixtures: a library of one test op with a domain of its own, as a third party would build it; a
signed bundle."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import shared

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def probe_library(tmp_path_factory: pytest.TempPathFactory) -> str:
    """tests/native/probe_op.cpp as an ONNX Runtime library with the domain "probe"."""
    return str(shared.once(tmp_path_factory, "probe", build) / "libprobe.so")


def build(folder: Path) -> None:
    """Links the objects of our libraries if `make build` left them, and compiles only the test ops
    and the file with the names of a library."""
    csrc, objects = ROOT / "csrc", ROOT / "build" / "objects" / "csrc"
    sources = []
    for name in ("core", "cuda", "adapters/ort"):
        for source in sorted((csrc / name).glob("*.cpp")):
            built = (objects / name / source.name).with_suffix(".o")
            ours = source.name == "library_names.cpp" or not built.is_file()
            sources.append(source if ours else built)
    sources += [ROOT / "tests" / "native" / name for name in ("probe_op.cpp", "kinds_op.cpp")]
    compiler = [os.environ.get("CXX") or shutil.which("c++") or "g++", "-std=c++17", "-O0", "-fPIC"]
    compiler += ["-fvisibility=hidden", '-DMYOPS_DOMAIN="probe"', f"-I{csrc / 'include'}"]
    linked = []
    for source in sources:
        linked.append(source)
        if source.suffix == ".cpp":  # compiled by a command of its own, which ccache can answer
            linked[-1] = folder / f"{source.parent.name}_{source.stem}.o"
            subprocess.run([*compiler, "-c", source, "-o", linked[-1]], check=True)
    exports = f"-Wl,--version-script={ROOT / 'cmake/ort_exports.map'},-z,defs"
    command = [*compiler, "-shared", *linked, "-o", folder / "libprobe.so", exports]
    subprocess.run(command, check=True)


@pytest.fixture(scope="session")
def signed_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import signed_bundles  # needs the extra "sign"

    return signed_bundles.make(tmp_path_factory.mktemp("signed"))


@pytest.fixture
def bundle(signed_bundle: Path, tmp_path: Path) -> Path:
    """A copy that the test may change."""
    return Path(shutil.copytree(signed_bundle, tmp_path / "deploy"))
