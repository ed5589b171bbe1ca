"""The library for ONNX Runtime on 64-bit ARM, compiled by a Clang that pip installs.

If `make test-arm` can build the whole library with GCC and run it in an emulator, this test
compiles only the files for ARM, otherwise the whole library.
"""

from __future__ import annotations

import importlib.metadata
import os
import shlex
import shutil
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SOURCE = Path(__file__).parents[1] / "csrc"
COMPILER = [sys.executable, "-m", "ziglang", "c++", "-target", "aarch64-linux-gnu"]
AARCH64 = 183  # as an ELF file's header has it
BUILT = all(map(shutil.which, ("aarch64-linux-gnu-g++", "qemu-aarch64-static")))


def run(*command: str | Path, environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=environment
    )
    assert done.returncode == 0, done.stderr


def cached_compiler(folder: Path) -> tuple[list[str | Path], dict[str, str]]:
    """The compiler behind ccache, if it is installed, and the environment variables for it.

    ccache needs an executable file, and knows it by its version instead of its time.
    """
    ccache = shutil.which("ccache")
    if not ccache:
        return [*COMPILER], {**os.environ}
    script = folder / "zig-c++"
    script.write_text(f'#!/bin/sh\nexec {shlex.join(COMPILER)} "$@"\n')
    script.chmod(0o755)
    name = "string:ziglang " + importlib.metadata.version("ziglang")
    settings = {"CCACHE_COMPILERTYPE": "clang", "CCACHE_COMPILERCHECK": name}
    return [ccache, script], {**os.environ, **settings, "CCACHE_BASEDIR": str(SOURCE.parent)}


def compiled(sources: list[Path], folder: Path) -> list[Path]:
    pytest.importorskip("ziglang")
    flags = ["-std=c++17", "-O0", "-fPIC", "-Wall", "-Wextra", "-Werror"]
    flags += [
        f"-I{SOURCE / 'include'}",
        f"-I{SOURCE / 'ops'}",
        '-DMYOPS_DOMAIN="myops"',
        '-DMYOPS_NAMESPACE="myops"',
    ]

    compiler, environment = cached_compiler(folder)

    def one(source: Path) -> Path:
        made = folder / f"{str(source.relative_to(SOURCE)).replace('/', '.')}.o"
        run(*compiler, "-c", *flags, source, "-o", made, environment=environment)
        return made

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(one, sources))


def machine(file: Path) -> int:
    (number,) = struct.unpack_from("<H", file.read_bytes(), 18)
    return int(number)


def test_sources_for_arm_compile_with_clang(tmp_path: Path) -> None:
    """`make test-sanitizers` compiles all other files with Clang, and `make test-arm` for ARM."""
    sources = [*SOURCE.glob("ops/*/isa/neon.cpp"), SOURCE / "core" / "isa.cpp"]
    assert len(sources) == 1 + len([*SOURCE.glob("ops/*/isa")])
    asking = {path for path in SOURCE.rglob("*.cpp") if "__aarch64__" in path.read_text()}
    assert asking <= set(sources)
    for file in compiled(sources, tmp_path):
        assert machine(file) == AARCH64


def _all_of_it(tmp_path: Path) -> None:
    parts = [SOURCE / "core", SOURCE / "cuda", SOURCE / "ops", SOURCE / "adapters" / "ort"]
    objects = compiled([path for part in parts for path in part.rglob("*.cpp")], tmp_path)
    library = tmp_path / "libmyops_ort.so"
    # Without the C++ library, which would have to be compiled first.
    run(*COMPILER, "-shared", "-nostdlib++", *objects, "-o", library)
    assert machine(library) == AARCH64
    missing = subprocess.check_output(["nm", "-D", "-C", "--undefined-only", library], text=True)
    assert "myops::" not in missing


if not BUILT:  # a test that is skipped would be a failure in CI
    test_builds_for_arm = _all_of_it
