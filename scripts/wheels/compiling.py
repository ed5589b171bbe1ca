"""Compiles the binaries of the wheels with zig: for another processor too, for an old C library.

zig brings Clang, libc++ and the symbols of every glibc, so a binary needs nothing of the machine
that makes it. libc++ is linked into each binary; none of its types crosses the boundary to torch
(its stable ABI is C), to Python or to ONNX Runtime. myops.build says what is compiled and
with which flags; this module chooses the compiler, and compiles the kernels once for all versions
of Python and for both distributions.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from wheels.pythons import Python

ROOT = Path(__file__).parents[2]
GLIBC = (2, 28)  # of Debian 10, RHEL 8, Ubuntu 18.10
PROCESSORS = ("x86_64", "aarch64")
PLATFORM = f"manylinux_{GLIBC[0]}_{GLIBC[1]}"
# The library that has torch's stable ABI; libtorch_python and the like stay out of it.
TORCH_LIBRARY = "libtorch_cpu.so"
DISTRIBUTIONS = ("myops", "myops-runtime")


def load_build() -> ModuleType:
    """python/myops/build.py, without the package, which may not have been built."""
    spec = importlib.util.spec_from_file_location("build", ROOT / "python" / "myops" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Plan:
    """The commands that make the binaries for one processor, as a file for Ninja.

    Args:
        processor: One of PROCESSORS.
        folder: For objects and binaries.
        pythons: The versions of Python to compile for.
    """

    def __init__(self, processor: str, folder: Path, pythons: Sequence[Python]) -> None:
        self.build = load_build()
        self.processor, self.folder, self.pythons = processor, folder, pythons
        self.objects: set[Path] = set()
        self.unload = folder / "unload.o"
        self.rules = [f"builddir = {folder}"]
        target = f"{processor}-linux-gnu.{GLIBC[0]}.{GLIBC[1]}"
        zig = [sys.executable, "-m", "ziglang"]
        self.c, self.cpp = ([*zig, name, "-target", target] for name in ("cc", "c++"))
        others = re.compile(
            {"x86_64": r"/isa/neon\.cpp$", "aarch64": r"/isa/avx\w*\.cpp$"}[processor]
        )
        found = [str(path.relative_to(ROOT)) for path in (ROOT / "csrc/ops").rglob("*.cpp")]
        ops = sorted(path for path in found if not others.search(path))
        made = self.build.extensions("myops", ops, include_dirs=["csrc/ops"], folder="lib")
        self.extensions = {item.myops_adapter: item for item in made}
        self.kernels = [*ops, *self._sources(*self.build.CORE), f"csrc/{self.build.NAMES}"]

    def write(self) -> Path:
        """Writes build.ninja."""
        torch, ort = (self.extensions[name] for name in ("torch", "ort"))
        common = ["-fPIC", "-DNDEBUG", "-std=c++20", "-Wno-psabi", *self._prefixes()]
        kernels = [self._object(path, "kernels", torch, common) for path in self.kernels]
        adapter = [self._object(path, "torch", torch, common) for path in self._adapters("torch")]
        self._unload()
        torch_stub = self._stub(TORCH_LIBRARY)
        shown = Path(__file__).parent
        options = [f"-Wl,--version-script={shown / 'torch.map'}"]
        self._link("libmyops_torch.so", [*kernels, *adapter, torch_stub], options)
        adapter = [self._object(path, "ort", ort, common) for path in self._adapters("ort")]
        self._link("libmyops_ort.so", [*kernels, *adapter], ort.extra_link_args)
        for python in self.pythons:
            prefix = f"-ffile-prefix-map={python.include}=python"
            options = [*common, "-isystem", python.include, prefix]
            for distribution in DISTRIBUTIONS:
                place = f"{distribution}/{python.tag}"
                adapter = self._numpy_objects(python, place, options)
                # Python's functions are in the program that loads it.
                linked = [f"-Wl,--version-script={shown / 'numpy.map'}"]
                self._link(f"{place}/{self._module(python)}", [*kernels, *adapter], linked)
        path = self.folder / "build.ninja"
        path.write_text("\n".join(self.rules) + "\n")
        return path

    def _numpy_objects(self, python: Python, place: str, options: Sequence[str]) -> list[Path]:
        """Those of one distribution; what does not differ between them is compiled once."""
        numpy, shared = self.extensions["numpy"], python.tag
        if place.startswith("myops-runtime"):
            paths, own = self._sources("adapters/numpy"), ["-DMYOPS_WITHOUT_FAST_CALL"]
        else:
            paths, own = self._adapters("numpy"), []
        made = []
        for path in paths:
            differs = "MYOPS_WITHOUT_FAST_CALL" in (ROOT / path).read_text(encoding="utf-8")
            kind, more = (place, own) if differs else (shared, [])
            made.append(self._object(path, kind, numpy, [*options, *more]))
        return made

    def binaries(self, distribution: str) -> dict[str, Path]:
        """Where each binary goes in the package, and where it is."""
        libraries = ["libmyops_ort.so"]
        if distribution == "myops":
            libraries.append("libmyops_torch.so")
        modules = {self._module(python): python for python in self.pythons}
        return {
            **{f"lib/{name}": self.folder / name for name in libraries},
            **{name: self.folder / distribution / python.tag / name
               for name, python in modules.items()},
        }  # fmt: skip

    def _module(self, python: Python) -> str:
        return f"_numpy.cpython-{python.tag[2:]}-{self.processor}-linux-gnu.so"

    def _sources(self, *folders: str) -> list[str]:
        return [os.path.relpath(path, ROOT) for path in self.build._sources(*folders)]

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
        if output in self.objects:
            return output
        self.objects.add(output)
        macros = [f"-D{name}={value}" for name, value in extension.define_macros]
        folders = []
        for path in extension.include_dirs:
            relative = os.path.relpath(path, ROOT)
            own = not relative.startswith("..") and not relative.startswith(".venv")
            folders += [f"-I{relative}"] if own else ["-isystem", path]
        arguments = [*extension.extra_compile_args, *options, *macros, *folders]
        command = [*self.cpp, "-c", source, "-o", str(output), *arguments,
                   "-MMD", "-MF", f"{output}.d"]  # fmt: skip
        return self._rule(output, command, [source], f"  depfile = {output}.d\n  deps = gcc")

    def _stub(self, name: str) -> Path:
        """Stands for a library of torch while ours is linked: it has the name and nothing in it."""
        source, output = self.folder / "nothing.c", self.folder / "stubs" / name
        source.write_text("")
        command = [*self.c, "-shared", f"-Wl,-soname,{name}", "-o", str(output), str(source)]
        return self._rule(output, command, [source], "")

    def _unload(self) -> None:
        """Compiles what every binary needs to be unloaded."""
        source = Path(__file__).with_name("unload.c")
        command = [*self.c, "-O2", "-g0", "-fPIC", "-c", str(source), "-o", str(self.unload)]
        self._rule(self.unload, command, [source], "")

    def _link(self, name: str, inputs: Sequence[Path], options: Sequence[str]) -> None:
        output, inputs = self.folder / name, [*inputs, self.unload]
        # -lm: or zig's own functions would take the place of those of the C library, which use the
        # CPU's fused multiply-add. The stub is needed, although nothing is found in it.
        command = [*self.cpp, "-shared", "-s", "-o", str(output), "-Wl,--no-as-needed",
                   *map(str, inputs), "-lm", *options]  # fmt: skip
        self._rule(output, command, inputs, "")


def compile_all(processor: str, pythons: Sequence[Python], folder: Path) -> Plan:
    """Makes the binaries for one processor in `folder`; what is there already is used."""
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(ROOT)  # to which sources are relative
    plan = Plan(processor, folder, pythons)
    path = plan.write()
    ninja = shutil.which("ninja", path=sysconfig.get_path("scripts")) or "ninja"
    # zig's own cache is beside the objects and is deleted with them.
    environment = {**os.environ, "ZIG_LOCAL_CACHE_DIR": str(folder / "zig")}
    jobs = os.environ.get("MAX_JOBS", str(os.cpu_count()))
    subprocess.run(
        [ninja, "--quiet", "-f", path, "-j", jobs], cwd=ROOT, env=environment, check=True
    )
    return plan
