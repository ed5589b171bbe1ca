"""Objects of the SDK that earlier builds made; `myops.build` describes it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pybind11
import torch

CACHE_DAYS = 30  # what nobody has used for so long is deleted
# What compilers read besides their arguments.
_VARIABLES = ("CC", "CXX", "CPATH", "CPLUS_INCLUDE_PATH", "GCC_EXEC_PREFIX", "COMPILER_PATH")


def entry(
    sources: Sequence[str],
    flags: Sequence[str],
    include_dirs: Sequence[str],
    read: Sequence[str],
    root: Path,
) -> Path | None:
    """The folder for objects of these files, compiled so; None where none may be stored.

    read: The files of the SDK, below `root`, that the compiler may read.

    Its name is a hash of everything that they are made from: files, flags, compiler, the versions
    of torch and pybind11, and the places of other headers. Environments with the same versions
    share the objects.
    """
    place = os.environ.get("MYOPS_BUILD_CACHE")
    if place == "" or any("native" in flag for flag in flags):  # of the CPU that is here
        return None
    if place is None:
        home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        place = os.path.join(home, "myops", "objects")
    content = hashlib.sha256()
    for part in (
        *(Path(source).name for source in sources), *flags, *map(_versioned, include_dirs),
        sys.version, torch.__version__, torch.version.git_version, pybind11.__version__,
        platform.machine(),
        *(f"{name}={os.environ.get(name)}" for name in _VARIABLES), _compiler_version(),
    ):  # fmt: skip
        content.update(f"{part}\0".encode())
    for path in read:
        content.update(f"{Path(path).relative_to(root)}\0".encode())
        content.update(hashlib.sha256(Path(path).read_bytes()).digest())
    return Path(place, content.hexdigest())


def _versioned(folder: str) -> str:
    """A folder of torch or pybind11 without the environment that it is in."""
    for module in (torch, pybind11):
        root = Path(str(module.__file__)).parent
        if Path(folder).is_relative_to(root):
            return f"{module.__name__}: {Path(folder).relative_to(root)}"
    return folder


def _compiler_version() -> str:
    command = [*shlex.split(os.environ.get("CXX", "c++")), "--version"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except OSError as error:
        return str(error)


def copied(stored: Path, objects: Sequence[str]) -> bool:
    """Whether all of them were there; they are then where a compiler would have written them."""
    try:
        for number, target in enumerate(objects):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copyfile(stored / f"{number}.o", target)
        os.utime(stored)
    except OSError:
        return False
    return True


def store(objects: Sequence[str], stored: Path) -> None:
    """For later builds; a folder that cannot be written or that another build fills is no error."""
    with contextlib.suppress(OSError):
        stored.parent.mkdir(parents=True, exist_ok=True)
        folder = tempfile.mkdtemp(dir=stored.parent)
        try:
            for number, source in enumerate(objects):
                shutil.copyfile(source, os.path.join(folder, f"{number}.o"))
            shutil.rmtree(stored, ignore_errors=True)  # what has lost a file
            os.rename(folder, stored)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        for entry in stored.parent.iterdir():
            if time.time() - entry.stat().st_mtime > CACHE_DAYS * 86400:
                shutil.rmtree(entry, ignore_errors=True)
