"""The versions of Python for which wheels are made and tested, as far as this machine has them."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from wheels import debian

VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
# Debian's releases that have a version which may be missing elsewhere.
SUITES = {"3.11": "bookworm", "3.13": "trixie", "3.14": "forky"}


@dataclass(frozen=True)
class Python:
    """A version of CPython: its headers are all that is needed of it.

    Args:
        version: As "3.13".
        include: The folder with Python.h.
        origin: Where it was found, in words.
    """

    version: str
    include: str
    origin: str

    @property
    def tag(self) -> str:
        return "cp" + self.version.replace(".", "")


def interpreters() -> dict[str, Path]:
    """Version -> interpreter, of those that are installed: pyenv's, and those on the PATH."""
    found: dict[str, Path] = {}
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    folders = [*sorted(root.glob("3.*/bin")), *map(Path, os.environ["PATH"].split(os.pathsep))]
    for version in VERSIONS:
        for folder in folders:
            program = folder / f"python{version}"
            if "shims" not in folder.parts and _runs(program):
                found.setdefault(version, program)
    return found


def _runs(program: Path) -> bool:
    if not program.is_file():
        return False
    return subprocess.run([program, "-c", ""], capture_output=True, check=False).returncode == 0


def headers(folder: Path) -> list[Python]:
    """All versions whose headers this machine has or can get from Debian, into `folder`."""
    found = []
    programs = interpreters()
    for version in VERSIONS:
        include = _include(programs[version]) if version in programs else None
        if include:
            found.append(Python(version, include, str(programs[version])))
        elif version in SUITES:
            place = _from_debian(version, folder)
            found += [Python(version, str(place), f"Debian {SUITES[version]}")] if place else []
    return found


def _include(program: Path) -> str | None:
    code = "import sysconfig; print(sysconfig.get_path('include'))"
    done = subprocess.run([program, "-c", code], capture_output=True, text=True, check=True)
    include = done.stdout.strip()
    return include if Path(include, "Python.h").is_file() else None


def _from_debian(version: str, folder: Path) -> Path | None:
    root = folder / f"python{version}"
    include = root / "usr" / "include" / f"python{version}"
    if not (include / "pyconfig.h").is_file():
        try:
            package = [f"libpython{version}-dev"]
            debian.fetch(package, root, SUITES[version], "amd64", follow=False)
        except debian.UnavailableError as error:
            print(f"no headers of Python {version}: {error}", file=sys.stderr)
            return None
        # Debian keeps what depends on the processor elsewhere: the same on those that we have.
        config = root / "usr" / "include" / "x86_64-linux-gnu" / f"python{version}" / "pyconfig.h"
        (include / "pyconfig.h").write_bytes(config.read_bytes())
    return include
