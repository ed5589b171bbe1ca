"""Builds the three binaries and ships what other packages need to build theirs.

How they are built stands in python/myops/build.py, which other packages import; everything else
about the package is in pyproject.toml.
"""

import importlib.util
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
OPS = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "csrc" / "ops").rglob("*.cpp"))

# By its file: the package itself cannot be imported before it is built.
spec = importlib.util.spec_from_file_location("build", ROOT / "python" / "myops" / "build.py")
build = importlib.util.module_from_spec(spec)
spec.loader.exec_module(build)


class BuildPy(build_py):
    """Puts the headers and the sources behind them into the wheel; see myops.build."""

    def run(self):
        super().run()
        if self.editable_mode:
            return  # myops.build finds them in the source tree
        sdk = Path(self.build_lib) / "myops" / "sdk"
        shutil.rmtree(sdk, ignore_errors=True)
        for folder in ("csrc/include", "csrc/core", "csrc/adapters", "cmake"):
            shutil.copytree(ROOT / folder, sdk / folder)


setup(
    ext_modules=build.extensions("myops", OPS, folder="lib"),
    cmdclass={"build_ext": build.BuildExtension, "build_py": BuildPy},
)
