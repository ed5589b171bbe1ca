"""Fresh environments to try wheels in: other versions of Python, other processors, other packages.

A place has an interpreter, which may run in an emulator, and a folder of packages that nothing else
is added to. pip chooses the packages for it, whatever the interpreter is that runs pip.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from wheels import cuda_stand_in, debian, pythons

# What torch needs besides CUDA, which a machine without a GPU does without.
BESIDE_TORCH = ("filelock", "fsspec", "jinja2", "networkx", "setuptools", "sympy",
                "typing-extensions")  # fmt: skip
_QEMU = "qemu-aarch64-static"


@dataclass
class Place:
    """One environment.

    Args:
        version: Of Python.
        processor: As "aarch64".
        command: What runs the interpreter.
        origin: Where the interpreter is from, in words.
        folder: For the packages; begun anew.
        failures: Packages that the index does not have for this place.
    """

    version: str
    processor: str
    command: Sequence[str]
    origin: str
    folder: Path
    failures: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)

    def install(self, *packages: str, alone: bool = False) -> bool:
        """Installs packages, with what they need unless `alone`.

        Returns:
            Whether the index has them.
        """
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary", ":all:",
                   "--target", str(self.folder), "--upgrade", "--implementation", "cp",
                   "--python-version", self.version, "--no-warn-conflicts"]  # fmt: skip
        # Newest first: pip takes the names of all systems that a wheel may be made for.
        glibc = int(platform.libc_ver()[1].split(".")[1])
        for minor in range(max(glibc, 28), 16, -1):
            command += ["--platform", f"manylinux_2_{minor}_{self.processor}"]
        command += ["--platform", f"manylinux2014_{self.processor}"]
        command += ["--no-deps"] if alone else []
        done = subprocess.run(
            [*command, *packages], capture_output=True, text=True, env=own_pins(), check=False
        )
        if done.returncode == 0:
            return True
        if "No matching distribution found" in done.stderr:
            self.failures += [done.stderr.strip().splitlines()[-1]]
            return False
        raise SystemExit(f"pip install {' '.join(packages)}: {done.stderr.strip()[-1000:]}")

    def install_torch(self, wanted: str, *, beside: bool = True) -> bool:
        """Installs torch without CUDA's libraries, for which stand-ins are made.

        `beside`: with the other packages that torch needs.
        """
        if not self.install(wanted, alone=True):
            return False
        if beside:
            self.install(*BESIDE_TORCH)
        cuda_stand_in.make(self.folder / "torch" / "lib")
        return True

    def run(self, *arguments: str, isa: str = "", cwd: Path | None = None) -> str:
        """Runs Python there.

        Returns:
            What it prints.

        Raises:
            RuntimeError: It ended with another status than 0.
        """
        kept = {name: value for name, value in os.environ.items()
                if name in ("PATH", "HOME", "LANG", "TMPDIR")}  # fmt: skip
        environment = {**kept, "PYTHONPATH": str(self.folder), "OMP_NUM_THREADS": "2"}
        if isa:  # bits of a set; this kernel also asks for an extension, which not every CPU has
            environment["MYOPS_ISA"] = isa
            environment["MYOPS_DISABLE_KERNEL"] = "deform_conv2d.bfloat16_product"
        done = subprocess.run(
            [*self.command, *arguments], env=environment, cwd=cwd or self.folder,
            capture_output=True, text=True, timeout=1500, check=False,
        )  # fmt: skip
        if done.returncode:
            text = (done.stderr.strip() or done.stdout.strip())[-1500:]
            raise RuntimeError(f"ended with status {done.returncode}: {text}")
        return done.stdout


def own_pins() -> dict[str, str]:
    """The environment without settings that hold back versions."""
    return {**os.environ, "PIP_CONSTRAINT": "", "PIP_CONFIG_FILE": os.devnull,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1"}  # fmt: skip


def find(version: str, processor: str, build: Path, name: str) -> Place | None:
    """A place for this Python; None where neither this machine nor Debian has it."""
    folder = build / f"{version}-{processor}-{name}"
    program = pythons.interpreters().get(version)
    if program and processor == platform.machine():
        return Place(version, processor, [str(program)], _origin(program), folder)
    if version not in pythons.SUITES:
        return None
    if processor != platform.machine() and not shutil.which(_QEMU):
        raise SystemExit(f"no {_QEMU}; on Debian: apt-get install qemu-user-static")
    suite = pythons.SUITES[version]
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}[processor]
    root = build / f"debian-{suite}-{architecture}"
    program = root / "usr" / "bin" / f"python{version}"
    if not program.exists():
        try:
            debian.fetch([f"python{version}", "libgomp1", "libstdc++6"], root, suite, architecture)
        except debian.UnavailableError as error:
            print(f"no Python {version} for {processor}: {error}", file=sys.stderr)
            return None
    if processor == platform.machine():
        libraries = root / "usr" / "lib" / f"{processor}-linux-gnu"
        (loader,) = (root / "usr" / "lib64").glob("ld-linux*")
        command = [str(loader), "--library-path", str(libraries), str(program)]
    else:
        command = [_QEMU, "-L", str(root), str(program)]
    return Place(version, processor, command, f"Debian {suite}", folder)


def _origin(program: Path) -> str:
    return "pyenv" if ".pyenv" in program.parts else "this machine"
