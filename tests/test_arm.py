"""The library for ONNX Runtime on 64-bit ARM, made by a cross compiler that pip has;
`make test-arm` has tests that run there, in an emulator."""

from __future__ import annotations

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


def run(*arguments: str | Path) -> None:
    done = subprocess.run(
        [*COMPILER, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stderr


def test_builds_for_arm(tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    flags = ["-std=c++17", "-O0", "-fPIC", "-Wall", "-Wextra", "-Werror"]
    flags += [f"-I{SOURCE / 'include'}", '-DMYOPS_DOMAIN="myops"', '-DMYOPS_NAMESPACE="myops"']

    def compiled(source: Path) -> Path:
        made = tmp_path / f"{str(source.relative_to(SOURCE)).replace('/', '.')}.o"
        run("-c", *flags, source, "-o", made)
        return made

    parts = [SOURCE / "core", SOURCE / "ops", SOURCE / "adapters" / "ort"]
    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(compiled, (path for part in parts for path in part.rglob("*.cpp"))))
    library = tmp_path / "libmyops_ort.so"
    # Without the C++ library, which would have to be compiled first.
    run("-shared", "-nostdlib++", *objects, "-o", library)
    (machine,) = struct.unpack_from("<H", library.read_bytes(), 18)
    assert machine == AARCH64
    missing = subprocess.check_output(["nm", "-D", "-C", "--undefined-only", library], text=True)
    assert "myops::" not in missing
