"""Runs clang-tidy with the checks of .clang-tidy on the portable sources: `make tidy`.

These are csrc/core/, csrc/cuda/, csrc/adapters/ (but torch_internals/, whose headers are most of
PyTorch) and, of each op, what is not compiled for an instruction set. Headers are checked through
the sources that include them. Given files, it checks only these.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pybind11
from torch.utils import cpp_extension

ROOT = Path(__file__).resolve().parents[1]
CLANG_TIDY = Path(sys.executable).parent / "clang-tidy"
# For what includes the LibTorch stable ABI; DLPack's header refuses it. See python/myops/build.py.
TORCH_TARGET = "-DTORCH_TARGET_VERSION=0x020a000000000000"


def sources() -> list[Path]:
    csrc = ROOT / "csrc"
    return sorted(
        [
            *csrc.glob("core/*.cpp"),
            *csrc.glob("cuda/*.cpp"),
            *csrc.glob("adapters/*/*.cpp"),
            *(path for path in csrc.glob("ops/**/*.cpp") if path.parent.name != "isa"),
        ]
    )


def check(source: Path) -> str:
    """The messages of clang-tidy about a file; empty if it finds nothing."""
    foreign = [
        pybind11.get_include(),
        sysconfig.get_path("include"),
        *cpp_extension.include_paths(),
    ]
    flags = ["-std=c++17", f"-I{ROOT / 'csrc' / 'include'}", f"-I{ROOT / 'csrc' / 'ops'}"]
    for folder in foreign:
        flags += ["-isystem", folder]
    if source.parent.name == "torch":
        flags.append(TORCH_TARGET)
    command = [str(CLANG_TIDY), "--quiet", str(source), "--", *flags]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def main() -> int:
    files = [Path(name).resolve() for name in sys.argv[1:]] or sources()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [text for text in pool.map(check, files) if text]
    print("\n".join(found) or f"clang-tidy: {len(files)} files, nothing found")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
