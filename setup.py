"""Builds the binaries and ships what other packages need to build theirs.

How they are built is in python/myops/build.py, which other packages import; everything else about
the package is in pyproject.toml.
"""

import importlib.util
import os
import re
import shutil
from pathlib import Path
from types import ModuleType

from setuptools import Extension, setup
from setuptools.command.build_py import build_py

try:
    import torch
    from torch.utils.cpp_extension import CppExtension
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"{error}: myops is compiled against the PyTorch that is installed. Install torch first: "
        "README.md, Install"
    ) from None

ROOT = Path(__file__).parent
OPS = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "csrc" / "ops").rglob("*.cpp"))

INTERNALS = ROOT / "csrc" / "adapters" / "fast_call" / "torch_internals"


def load(file: str) -> ModuleType:
    """A module of the package by its file: the package cannot be imported before it is built."""
    path = ROOT / "python" / "myops" / file
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


build = load("build.py")


def torch_internals() -> Extension:
    """The module for the torch that is installed now, which makes calls faster; it is optional."""
    internals = load("_torch/torch_internals.py")
    extension = CppExtension(
        f"myops.{internals.module_name(torch.__version__, torch.version.git_version)}",
        [str(path.relative_to(ROOT)) for path in INTERNALS.glob("*.cpp")],
        include_dirs=[str(ROOT / "csrc" / "include")],
        extra_compile_args=build.COMPILE,
        depends=[str(path.relative_to(ROOT)) for path in INTERNALS.parent.rglob("*.h")],
    )
    extension.optional = True  # its headers may change with any version of torch
    return extension


def extensions() -> list[Extension]:
    if os.environ.get("MYOPS_COMPILE") == "0":
        return []  # an editable install whose libraries the Makefile compiles meanwhile
    ours = build.extensions("myops", OPS, include_dirs=[str(ROOT / "csrc" / "ops")], folder="lib")
    return [*ours, torch_internals()]


def description() -> str:
    """README.md for a package index, which shows no other file of ours: links to files become
    their texts, and pictures the texts that stand for them."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"!\[([^\]]+)\]\((?!https?:)[^)]*\)", r"*\1*", text)
    return re.sub(r"\[([^\]]+)\]\((?!https?:)[^)]*\)", r"\1", text)


class BuildExtension(build.BuildExtension):
    """Keeps the objects of an editable install: the next build compiles only what changed."""

    def finalize_options(self):
        super().finalize_options()
        if self.inplace or self.editable_mode:
            self.build_temp = str(Path("build", "objects"))


class BuildPy(build_py):
    """Puts the headers and the sources behind them into the wheel; see myops.build."""

    def run(self):
        super().run()
        if self.editable_mode:
            return  # myops.build finds them in the source tree
        sdk = Path(self.build_lib) / "myops" / "sdk"
        shutil.rmtree(sdk, ignore_errors=True)
        for folder in ("csrc/include", "csrc/core", "csrc/cuda", "csrc/adapters", "cmake"):
            shutil.copytree(ROOT / folder, sdk / folder)


setup(
    long_description=description(),
    long_description_content_type="text/markdown",
    ext_modules=extensions(),
    cmdclass={"build_ext": BuildExtension, "build_py": BuildPy},
)
