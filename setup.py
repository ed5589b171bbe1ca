"""Builds the three binaries; everything else about the package is in pyproject.toml.

The kernels (csrc/core, csrc/ops) are compiled once, as part of the torch extension, and the same
object files are linked into the other two: equal bits in all runtimes begin here.
"""

import sys
from pathlib import Path

from pybind11 import get_include
from setuptools import Extension, setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

ROOT = Path(__file__).parent
# -ffp-contract=off: whether a*b+c is fused must not depend on what the compiler inlines where.
COMPILE = ["-O3", "-g0", "-fvisibility=hidden", "-ffp-contract=off", "-Wall", "-Wextra"]
# The oldest torch that the binary must run on; the stable ABI covers all later ones.
TORCH_TARGET = "-DTORCH_TARGET_VERSION=0x020a000000000000"
LINUX = sys.platform.startswith("linux")


def sources(folder: str) -> list[str]:
    return sorted(str(path.relative_to(ROOT)) for path in (ROOT / "csrc" / folder).rglob("*.cpp"))


KERNELS = sources("core") + sources("ops")
INCLUDE = [str(ROOT / "csrc" / "include")]
DEPENDS = [str(path) for path in (ROOT / "csrc").rglob("*.h")]
# Shows the entry point and nothing else; a symbol that is missing fails here, not at a user's.
ORT_LINK = [f"-Wl,--version-script={ROOT / 'cmake' / 'ort_exports.map'}", "-Wl,-z,defs"]

torch_library = CppExtension(
    "myops.lib.libmyops_torch",
    KERNELS + sources("adapters/torch"),
    include_dirs=INCLUDE,
    depends=DEPENDS,
    extra_compile_args=[*COMPILE, TORCH_TARGET],
    py_limited_api=True,  # no Python in it: C++ programs load the same file
)
numpy_module = Extension(
    "myops._numpy",
    sources("adapters/numpy"),
    include_dirs=[*INCLUDE, get_include()],
    depends=DEPENDS,
    extra_compile_args=COMPILE,
)
ort_library = Extension(
    "myops.lib.libmyops_ort",
    sources("adapters/ort"),
    include_dirs=INCLUDE,
    depends=DEPENDS,
    extra_compile_args=COMPILE,
    extra_link_args=ORT_LINK if LINUX else [],
)


class Build(BuildExtension):
    """Lends the torch extension's kernel objects to the other two, and names plain libraries."""

    def build_extension(self, ext: Extension) -> None:
        if ext is not torch_library:
            ext.extra_objects = [str(self.kernel_object(source)) for source in KERNELS]
        super().build_extension(ext)

    def kernel_object(self, source: str) -> Path:
        return (Path(self.build_temp) / source).with_suffix(".o").absolute()

    def get_ext_filename(self, fullname: str) -> str:
        if fullname.split(".")[-1].startswith("libmyops_"):
            suffix = ".dylib" if sys.platform == "darwin" else ".so"
            return str(Path(*fullname.split("."))) + suffix
        return super().get_ext_filename(fullname)


setup(
    ext_modules=[torch_library, numpy_module, ort_library],
    cmdclass={"build_ext": Build},
)
