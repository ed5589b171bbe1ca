"""What goes into the wheels besides binaries: the Python files and the metadata.

Both come from where the usual builds take them: setup.py of myops, runtime/CMakeLists.txt and
runtime/pyproject.toml of myops-runtime.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
VERSION = re.search(
    r'^__version__ = "(.+)"', (ROOT / "python/myops/_version.py").read_text(), re.MULTILINE
)[1]  # type: ignore[index]


def of(distribution: str) -> dict[str, bytes]:
    """Name in the wheel -> bytes, without binaries, WHEEL and RECORD."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        _BUILDERS[distribution](root)
        found = {
            path.relative_to(root / "wheel").as_posix(): path.read_bytes()
            for path in sorted((root / "wheel").rglob("*"))
            if path.is_file() and path.suffix not in (".so", ".pyc")
        }
    info = f"{distribution.replace('-', '_')}-{VERSION}.dist-info"
    if f"{info}/METADATA" not in found:
        raise RuntimeError(f"{distribution}: its build made no {info}/METADATA")
    return found


def _myops(root: Path) -> None:
    config = root / "setup.cfg"
    config.write_text(f"[build]\nbuild_base={root}/base\nbuild_lib={root}/wheel\n")
    environment = {**os.environ, "DIST_EXTRA_CONFIG": str(config)}
    commands = ["egg_info", "--egg-base", root, "build_py"]
    _run([sys.executable, "setup.py", "--quiet", *commands], environment)
    commands = ["egg_info", "--egg-base", root, "dist_info", "--output-dir", f"{root}/wheel"]
    _run([sys.executable, "setup.py", "--quiet", *commands], environment)


def _runtime(root: Path) -> None:
    code = (
        "import sys; from scikit_build_core.build import prepare_metadata_for_build_wheel as make; "
        "make(sys.argv[1])"
    )
    (root / "wheel").mkdir()
    _run([sys.executable, "-c", code, root / "wheel"], cwd=ROOT / "runtime")
    tools = Path(sys.executable).parent
    cmake = str(tools / "cmake")
    import pybind11

    _run([cmake, "-S", ROOT / "runtime", "-B", root / "build", "-G", "Ninja",
          f"-DCMAKE_MAKE_PROGRAM={tools / 'ninja'}", f"-DPython_EXECUTABLE={sys.executable}",
          f"-Dpybind11_DIR={pybind11.get_cmake_dir()}"])  # fmt: skip
    _run([cmake, "--install", root / "build", "--prefix", root / "wheel",
          "--component", "myops_runtime_python"])  # fmt: skip


_BUILDERS: dict[str, Callable[[Path], None]] = {"myops": _myops, "myops-runtime": _runtime}


def _run(
    command: list[object], environment: dict[str, str] | None = None, cwd: Path = ROOT
) -> None:
    words = [str(word) for word in command]
    done = subprocess.run(
        words, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        text = (done.stdout + done.stderr)[-2000:]
        raise SystemExit(f"{' '.join(words[:4])}: ended with status {done.returncode}\n{text}")
