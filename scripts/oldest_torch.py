"""Compiles what includes torch's headers with those of the oldest torch that pyproject.toml allows.

    python scripts/oldest_torch.py [VERSION...]

The flags are those of setup.py, the C++ standard is that of the oldest torch; no code is generated.
The headers come from the wheel for macOS, the smallest one (80 MB), and stay in build/oldest_torch.
VERSIONs take the place of the oldest. Where the download fails, nothing is compiled, which is said,
and the status is 0, or 1 with MYOPS_CI=1.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from concurrent.futures import ThreadPoolExecutor
from distutils.core import run_setup  # setuptools' own
from pathlib import Path

from torch.utils import cpp_extension
from wheels import places

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "oldest_torch"
CPP_EXTENSION = "torch/utils/cpp_extension.py"
# Whose flags the files in a folder have, if not those of the library for torch; "" is the module
# for exactly one torch.
ADAPTERS = {"torch_internals": "", "examples": "", "fast_call": "numpy", "numpy": "numpy"}


def oldest() -> str:
    found = set(re.findall(r'"torch>=([\d.]+)"', (ROOT / "pyproject.toml").read_text()))
    if len(found) != 1:
        raise SystemExit(f'pyproject.toml: "torch>=": got {sorted(found)}, expected one release')
    return found.pop()


def headers(version: str) -> Path | None:
    """The folder above torch/include of this release; None if it cannot be downloaded."""
    folder = BUILD / version
    if not (folder / ".ready").exists():
        shutil.rmtree(folder, ignore_errors=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary",
                   ":all:", "--platform", "macosx_14_0_arm64", "--python-version", "3.12",
                   "--dest", str(folder), f"torch=={version}"]  # fmt: skip
        if subprocess.run(command, env=places.own_pins(), check=False).returncode:
            return None
        (wheel,) = folder.glob("*.whl")
        with zipfile.ZipFile(wheel) as content:
            wanted = ("torch/include/", CPP_EXTENSION)
            content.extractall(folder, [n for n in content.namelist() if n.startswith(wanted)])
        wheel.unlink()
        (folder / ".ready").touch()
    return folder


def uses_torch(source: Path) -> bool:
    """Whether the file, or a header of ours that it includes, includes a header of torch."""
    files = [source]
    for file in files:
        for name in re.findall(r'#include ["<]([^">]+)[">]', file.read_text()):
            if name.startswith(("torch/", "ATen/", "c10/")):
                return True
            ours = ((folder / name).resolve() for folder in (file.parent, ROOT / "csrc/include"))
            files += [path for path in ours if path.is_file() and path not in files]
    return False


def commands(torch: Path) -> dict[str, list[str]]:
    """How files are compiled with the torch in this folder, for each adapter in setup.py."""
    standard = min(re.findall(r"-std=c\+\+\d+", (torch / CPP_EXTENSION).read_text()))
    installed = cpp_extension.include_paths()[0]
    found = {}
    for extension in run_setup("setup.py", stop_after="init").ext_modules:
        includes = [*extension.include_dirs, sysconfig.get_path("include")]
        found[getattr(extension, "myops_adapter", "")] = [
            *shlex.split(os.environ.get("CXX", "c++")), "-fsyntax-only", "-w", standard,
            *sysconfig.get_config_var("CFLAGS").split(), "-fPIC", "-DTORCH_API_INCLUDE_EXTENSION_H",
            f"-DTORCH_EXTENSION_NAME={extension.name.rpartition('.')[2]}",
            *(f"-D{name}={value}" for name, value in extension.define_macros),
            *(f"-I{path.replace(installed, str(torch / 'torch/include'))}" for path in includes),
            *extension.extra_compile_args,
        ]  # fmt: skip
    return found


def check(version: str) -> bool:
    """Whether all files compile; prints what does not."""
    torch = headers(version)
    if torch is None:
        print(f"skipped: the headers of torch {version} cannot be downloaded", flush=True)
        return os.environ.get("MYOPS_CI") != "1"
    flags = commands(torch)

    def errors(source: Path) -> str:
        adapter = next((ADAPTERS[name] for name in source.parts if name in ADAPTERS), "torch")
        command = [*flags[adapter], str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return f"torch {version}: {source}:\n{done.stderr}" if done.returncode else ""

    files = [*Path("examples").glob("*/*/*.cpp"), *Path("csrc").rglob("*.cpp")]
    sources = list(filter(uses_torch, files))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(filter(None, pool.map(errors, sources)))
    print(*found, f"torch {version}: {len(sources) - len(found)} of {len(sources)} files compile",
          sep="\n", flush=True)  # fmt: skip
    return not found


if __name__ == "__main__":
    os.chdir(ROOT)  # paths in setup.py are relative
    wrong = [version for version in sys.argv[1:] or [oldest()] if not check(version)]
    sys.exit(1 if wrong else 0)
