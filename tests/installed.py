"""myops as users install it: a wheel in an environment of its own, without our source tree.

The wheel has the binaries that the other tests use, so nothing of ours is compiled. The new
environment has this myops only; torch and the other packages are those of this Python.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

import pytest
import shared
import warm

import myops

ROOT = Path(__file__).parents[1]


def run(*command: Any, cwd: Path, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**(environment or outside()), **cached(cwd)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-8000:]
    return done.stdout


def fork(python: Path, *words: Any, cwd: Path) -> str:
    """run(), without the seconds in which a new interpreter imports torch (see warm.py)."""
    done = warm.run(*words, cwd=cwd, env={**outside(), **cached(cwd)}, python=python)
    assert done.returncode == 0, (done.stdout + done.stderr)[-8000:]
    return done.stdout


def outside() -> dict[str, str]:
    """The environment variables of a user without our source tree."""
    hidden = ("PYTHONPATH", "VIRTUAL_ENV", "MYOPS_CI", "PYTEST_ADDOPTS")
    return {name: value for name, value in os.environ.items() if name not in hidden}


def compiling(folder: Path) -> dict[str, str]:
    """The environment variables of a user, with which pip compiles below this folder: then the
    relative paths to sources and headers, which ccache compares, are those of earlier test runs."""
    return {**outside(), **cached(folder), "TMPDIR": str(folder)}


def cached(folder: Path) -> dict[str, str]:
    """Variables with which ccache finds what an earlier test run compiled in a folder like this.

    The names of temporary folders differ from run to run: below CCACHE_BASEDIR, ccache takes paths
    relative to the folder in which the compiler runs.
    """
    inside = Path(folder).resolve().is_relative_to(ROOT)  # for which make has set them
    return {} if inside else {"CCACHE_BASEDIR": tempfile.gettempdir(), "CCACHE_NOHASHDIR": "1"}


def copied(source: Path, folder: Path) -> Path:
    """A copy of a package's sources, without build outputs."""
    made = shutil.ignore_patterns("build", "*.egg-info", "__pycache__", "*.so")
    return Path(shutil.copytree(source, folder, ignore=made))


def install(python: Path, package: Path, *, editable: bool = False) -> None:
    """Builds a package of ops against our wheel, without an index."""
    pip = (python, "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-index")
    options = ["--editable"] if editable else []
    run(*pip, "--no-deps", *options, ".", cwd=package, environment=compiling(package.parent))


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of myops from the Python files of the tree and the binaries in use."""
    return next(shared.once(tmp_path_factory, "wheel", build_wheel).glob("myops-*.whl"))


def build_wheel(folder: Path) -> None:
    content = folder / "lib" / "myops"
    (folder / "setup.cfg").write_text(f"[build]\nbuild_base={folder}\nbuild_lib={folder}/lib\n")
    used = Path(myops.__file__).parent
    for file in (*used.glob("*.so"), *used.glob("lib/*.so")):
        (content / file.relative_to(used)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, content / file.relative_to(used))
    environment = {**outside(), "DIST_EXTRA_CONFIG": str(folder / "setup.cfg")}
    words = (
        "setup.py", "--quiet", "egg_info", "--egg-base", folder, "build_py",
        "bdist_wheel", "--skip-build", "--compression", "stored", "-d", folder,
    )  # fmt: skip
    done = warm.run(*words, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a new environment with the wheel."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder)
    (packages,) = folder.glob("lib/python3*/site-packages")
    # Garbage collections are less frequent, as in conftest.py.
    quick = "import gc; gc.set_threshold(20_000, 10, 10)"
    (packages / "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n{quick}\n")
    interpreter = folder / "bin" / "python"
    pip = (interpreter, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index")
    run(*pip, "--ignore-installed", wheel, cwd=folder)
    found = run(interpreter, "-c", "import myops; print(myops.__file__)", cwd=folder)
    assert found.strip() == str(packages / "myops" / "__init__.py")
    return interpreter
