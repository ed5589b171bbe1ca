"""Compiles the binaries of a wheel with zig: for another processor too, for an old C library.

zig brings Clang, libc++ and the symbols of every glibc, so a binary needs nothing of the machine
that makes it. libc++ is linked into each binary; none of its types crosses the border to torch
(its stable ABI is C), to Python or to ONNX Runtime. What is compiled, and how, stands in
myops.build; here stands which compiler does it, and that the kernels are compiled once for all
versions of Python.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[2]
GLIBC = (2, 28)  # of Debian 10, RHEL 8, Ubuntu 20.04
PROCESSORS = ("x86_64", "aarch64")
TORCH_LIBRARIES = ("libc10.so", "libtorch_cpu.so")  # of which torch's stable ABI is


@dataclass(frozen=True)
class Python:
    """A version of CPython: its headers are all that is needed of it.

    Args:
        version: As "3.13".
        include: The folder with Python.h.
    """

    version: str
    include: str

    @property
    def tag(self) -> str:
        return "cp" + self.version.replace(".", "")

    def suffix(self, processor: str) -> str:
        """Of the file name of an extension module."""
        return f".cpython-{self.tag[2:]}-{processor}-linux-gnu.so"


def this_python() -> Python:
    return Python(f"{sys.version_info[0]}.{sys.version_info[1]}", sysconfig.get_path("include"))


def other_python(program: str) -> Python:
    """Of an interpreter, which must have its headers installed."""
    code = (
        "import sys, sysconfig; print(sys.version_info[0], sys.version_info[1], "
        "sysconfig.get_path('include'), sep='\\n')"
    )
    done = subprocess.run([program, "-c", code], capture_output=True, text=True, check=True)
    major, minor, include = done.stdout.splitlines()
    if not Path(include, "Python.h").is_file():
        raise SystemExit(f"{program}: no {include}/Python.h; install the headers of this Python")
    return Python(f"{major}.{minor}", include)


class Plan:
    """The commands that make the binaries for one processor, as a file for Ninja."""

    def __init__(self, build: ModuleType, processor: str, folder: Path) -> None:
        self.build, self.processor, self.folder = build, processor, folder
        self.rules: list[str] = []
        target = f"{processor}-linux-gnu.{GLIBC[0]}.{GLIBC[1]}"
        self.compiler = [sys.executable, "-m", "ziglang", "c++", "-target", target]
        ops = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "csrc/ops").rglob("*.cpp"))
        found = build.extensions("myops", ops, folder="lib")
        self.extensions = {item.myops_adapter: item for item in found}
        self.kernels = [*ops, *self._sources("core")]

    def write(self, pythons: Sequence[Python]) -> Path:
        """Writes build.ninja."""
        torch, ort, numpy = (self.extensions[name] for name in ("torch", "ort", "numpy"))
        common = ["-fPIC", "-DNDEBUG", "-std=c++20", *self._prefixes()]
        kernels = [self._object(path, "kernels", torch, common) for path in self.kernels]
        names = self._object(f"csrc/{self.build.NAMES}", "kernels", torch, common)
        everything = [*kernels, names]
        stubs = [self._stub(name) for name in TORCH_LIBRARIES]
        adapter = [self._object(path, "torch", torch, common) for path in self._adapters("torch")]
        self._link("libmyops_torch.so", [*everything, *adapter, *stubs], torch.extra_link_args)
        adapter = [self._object(path, "ort", ort, common) for path in self._adapters("ort")]
        self._link("libmyops_ort.so", [*everything, *adapter], ort.extra_link_args)
        for python in pythons:
            options = [*common, "-isystem", python.include]
            adapter = [
                self._object(path, python.tag, numpy, options) for path in self._adapters("numpy")
            ]
            # Python's functions are in the program that loads it.
            name = f"_numpy{python.suffix(self.processor)}"
            self._link(name, [*everything, *adapter], ["-Wl,--allow-shlib-undefined"])
        path = self.folder / "build.ninja"
        path.write_text("\n".join(self.rules) + "\n")
        return path

    def binaries(self, python: Python) -> dict[str, Path]:
        """Where each binary goes in the package, and where it is."""
        module = f"_numpy{python.suffix(self.processor)}"
        places = {module: module}
        places |= {f"lib/{name}": name for name in ("libmyops_torch.so", "libmyops_ort.so")}
        return {place: self.folder / name for place, name in places.items()}

    def _sources(self, folder: str) -> list[str]:
        return [os.path.relpath(path, ROOT) for path in self.build._sources(folder)]

    def _adapters(self, name: str) -> list[str]:
        folders = self.build.ADAPTERS[name]
        return [path for folder in folders for path in self._sources(f"adapters/{folder}")]

    def _prefixes(self) -> list[str]:
        """No path of this machine gets into a binary."""
        places = {str(ROOT): ".", sysconfig.get_path("purelib"): "include"}
        return [f"-ffile-prefix-map={place}={shown}" for place, shown in places.items()]

    def _rule(self, output: Path, command: Sequence[str], inputs: Sequence[Any], more: str) -> Path:
        def words(items: Sequence[Any]) -> str:
            return " ".join(str(item).replace("$", "$$").replace(" ", "$ ") for item in items)

        number = len(self.rules)
        line = shlex.join(command).replace("$", "$$")
        name = os.path.relpath(output, self.folder)
        about = f"  description = {self.processor} {name}"
        self.rules.append(f"rule r{number}\n  command = {line}\n{about}\n{more}")
        self.rules.append(f"build {words([output])}: r{number} {words(inputs)}")
        return output

    def _object(self, source: str, kind: str, extension: Any, options: Sequence[str]) -> Path:
        output = self.folder / kind / (source.replace("/", "_") + ".o")
        macros = [f"-D{name}={value}" for name, value in extension.define_macros]
        folders = []
        for path in extension.include_dirs:
            relative = os.path.relpath(path, ROOT)
            own = not relative.startswith("..") and not relative.startswith(".venv")
            folders += [f"-I{relative}"] if own else ["-isystem", path]
        arguments = [*extension.extra_compile_args, *options, *macros, *folders]
        command = [*self.compiler, "-c", source, "-o", str(output), *arguments,
                   "-MMD", "-MF", f"{output}.d"]  # fmt: skip
        return self._rule(output, command, [source], f"  depfile = {output}.d\n  deps = gcc")

    def _stub(self, name: str) -> Path:
        """Stands for a library of torch while ours is linked: it has the name and nothing in it."""
        source, output = self.folder / "nothing.c", self.folder / "stubs" / name
        source.write_text("")
        command = [*self.compiler[:-3], "cc", *self.compiler[-2:], "-shared", "-x", "c",
                   f"-Wl,-soname,{name}", "-o", str(output), str(source)]  # fmt: skip
        return self._rule(output, command, [source], "")

    def _link(self, name: str, inputs: Sequence[Path], options: Sequence[str]) -> None:
        output = self.folder / name
        command = [*self.compiler, "-shared", "-s", "-o", str(output), *map(str, inputs),
                   *options]  # fmt: skip
        self._rule(output, command, inputs, "")


def compile_all(build: ModuleType, processor: str, pythons: Sequence[Python], folder: Path) -> Plan:
    """Makes the binaries for one processor in `folder`; what is there already is used."""
    folder.mkdir(parents=True, exist_ok=True)
    plan = Plan(build, processor, folder)
    path = plan.write(pythons)
    ninja = shutil.which("ninja", path=sysconfig.get_path("scripts")) or "ninja"
    # zig's own store of what it compiled lies beside the objects and goes when they do.
    environment = {**os.environ, "ZIG_LOCAL_CACHE_DIR": str(folder / "zig")}
    subprocess.run([ninja, "-f", path, "-j", os.environ.get("MAX_JOBS", str(os.cpu_count()))],
                   cwd=ROOT, env=environment, check=True)  # fmt: skip
    return plan
