"""Builds a package of ops. Its whole `setup.py`:

    import myops.build
    from setuptools import setup

    setup(
        ext_modules=myops.build.extensions("my_ops"),
        cmdclass={"build_ext": myops.build.BuildExtension},
    )

It builds three binaries, as for myops itself, which uses this file too: the library for torch, the
library for ONNX Runtime, and the Python module `_numpy`. Everything that they need besides the ops
is compiled from the sources in the wheel of myops, with the same compiler and flags as the ops. A
prebuilt archive might not fit in compiler, C++ library or instruction set.

The kernels are compiled once, as part of the torch library, and the same object files are linked
into the other two: equal bits in all runtimes begin here.

The objects of the sources of myops itself are the same in every package, except one small file
with its names. They are stored in a folder of the user's, `~/.cache/myops/objects` or what
MYOPS_BUILD_CACHE names, under a hash of everything that they are made from: the next package, or
the next build of this one elsewhere, compiles only its ops. An empty MYOPS_BUILD_CACHE turns this
off.

Example:
    >>> [item.name for item in myops.build.extensions("my_ops", ["my_op.cpp"])]
    ['my_ops.libmy_ops_torch', 'my_ops._numpy', 'my_ops.libmy_ops_ort']
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

try:
    import pybind11
    from setuptools import Extension
    from setuptools.errors import CompileError
    from torch.utils import cpp_extension
except ImportError as error:
    raise ImportError(
        f"myops.build: {error.name} is not installed, and a package of ops is compiled with it. "
        "Install what building needs: pip install 'myops[build]'"
    ) from error

__all__ = ["BuildExtension", "extensions", "get_cmake_dir", "get_include"]


def __dir__() -> list[str]:
    return sorted(__all__)


def _beside(name: str) -> ModuleType:
    """A module beside this file. setup.py and scripts load this file alone, because the package can
    only be imported when it has been built."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if TYPE_CHECKING:
    from myops import _build_cache as cache
else:
    cache = _beside("_build_cache")

# -ffp-contract=off: whether a*b+c is fused must not depend on what the compiler inlines where.
# -falign-functions: a loop must not take 1.4 times as long because other code was changed.
COMPILE = ["-O3", "-g0", "-falign-functions=64", "-fvisibility=hidden", "-ffp-contract=off",
           "-Wall", "-Wextra"]  # fmt: skip
# The folders of csrc/adapters/ in each binary.
CORE = ("core", "cuda")  # in all of them
ADAPTERS = {"torch": ("torch",), "numpy": ("numpy", "fast_call"), "ort": ("ort",)}
# The oldest torch that the binary must run on; the stable ABI covers all later ones.
TORCH_TARGET = "-DTORCH_TARGET_VERSION=0x020a000000000000"
# The file of the SDK that differs between packages, and the macros that it reads.
NAMES, NAME_MACROS = "core/library_names.cpp", ("MYOPS_DOMAIN", "MYOPS_NAMESPACE")


def _root() -> Path:
    """The folder with csrc/ and cmake/: in an installed package sdk/, in a source tree the top."""
    here = Path(__file__).resolve().parent
    for place in (here / "sdk", here.parents[1]):
        if (place / "csrc" / "include" / "myops" / "op.h").is_file():
            return place
    raise FileNotFoundError(
        f"myops.build: the headers of myops are neither in {here / 'sdk'} nor in a source tree "
        f"around {here}. Reinstall myops (`pip install --force-reinstall myops`)."
    )


def get_include() -> str:
    """The folder for the compiler's -I: `#include "myops/op.h"` is found in it.

    Example:
        >>> os.path.exists(os.path.join(myops.build.get_include(), "myops", "op.h"))
        True
    """
    return str(_root() / "csrc" / "include")


def get_cmake_dir() -> str:
    """The folder for CMake's `-Dmyops_DIR=`, with which `find_package(myops)` finds us.

    `myops_add_op_library(name DOMAIN domain SOURCES ...)` then builds an ONNX Runtime library;
    torch and Python are not needed.

    Example:
        >>> os.path.exists(os.path.join(myops.build.get_cmake_dir(), "myopsConfig.cmake"))
        True
    """
    return str(_root() / "cmake")


def extensions(
    package: str,
    sources: Sequence[str] | None = None,
    *,
    domain: str | None = None,
    namespace: str | None = None,
    folder: str = "",
    include_dirs: Sequence[str] = (),
    define_macros: Sequence[tuple[str, str | None]] = (),
    extra_compile_args: Sequence[str] = (),
    extra_link_args: Sequence[str] = (),
) -> list[Extension]:
    """The extensions of a package of ops, for `setup(ext_modules=...)`.

    Args:
        package: The Python package that the binaries go to; its `__init__.py` opens them with
            `myops.op_library(__name__)`.
        sources: The C++ files that hold the ops (`MYOPS_OP`), relative to setup.py. Default:
            every .cpp file in the folder csrc and below it. Files that choose an instruction set
            (`#include "myops/isa/avx2.h"`) need nothing else.
        domain: ONNX domain of the nodes. Default: the package's name.
        namespace: Namespace in torch.ops. Default: the domain, dots written as underscores.
        folder: Where in the package the two libraries go. Default: the package itself.
        include_dirs, define_macros, extra_compile_args, extra_link_args: As in
            setuptools.Extension, for all three binaries. The sources of myops itself do without
            include_dirs and are compiled with -O3.

    Returns:
        Three extensions, to be built with `BuildExtension`.

    Raises:
        ValueError: A name that torch, ONNX or Python would refuse, the domain or namespace of
            somebody else, or no source file.

    Example:
        >>> [item.name for item in myops.build.extensions("my_ops", ["my_op.cpp"])]
        ['my_ops.libmy_ops_torch', 'my_ops._numpy', 'my_ops.libmy_ops_ort']
    """
    if sources is None:
        sources = sorted(str(path) for path in Path("csrc").rglob("*.cpp"))
    kernels = [str(path) for path in sources]
    if not kernels:
        raise ValueError(
            f"extensions({package!r}): sources: got no file, expected C++ files with the ops, by "
            f"default those in {Path('csrc').absolute()}"
        )
    _check(package, "package", r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", "the name of a Python package")
    domain = package if domain is None else domain
    namespace = re.sub(r"[.-]", "_", domain) if namespace is None else namespace
    _check(domain, "domain", r"[A-Za-z_][\w.-]*", 'letters, digits, "_", "-" and "."')
    _check(namespace, "namespace", r"[A-Za-z_]\w*", "an identifier")
    if package != "myops":
        _refuse_taken("domain", domain)
        _refuse_taken("namespace", namespace)
    title = package.rpartition(".")[2]
    place = f"{package}.{folder}" if folder else package
    common: dict[str, Any] = {
        "include_dirs": [*include_dirs, get_include()],
        "define_macros": [
            *define_macros,
            ("MYOPS_DOMAIN", f'"{domain}"'),
            ("MYOPS_NAMESPACE", f'"{namespace}"'),
        ],
    }
    compile_args = [*COMPILE, *extra_compile_args]
    link_args = [*extra_link_args, "-ldl"]

    torch_library = cpp_extension.CppExtension(
        f"{place}.lib{title}_torch",
        kernels,
        # A list of its own, which CppExtension extends by torch's folders.
        **{**common, "include_dirs": [*common["include_dirs"]]},
        extra_compile_args=[*compile_args, TORCH_TARGET],
        extra_link_args=link_args,
        py_limited_api=True,  # no Python in it: C++ programs load the same file
    )
    numpy_module = Extension(
        f"{package}._numpy",
        [],
        **{
            **common,
            # Of torch's headers that of DLPack alone is used; pybind11 must not be torch's copy.
            "include_dirs": [
                *common["include_dirs"],
                pybind11.get_include(),
                *cpp_extension.include_paths(),
            ],
        },
        extra_compile_args=compile_args,
        extra_link_args=link_args,
    )
    ort_library = Extension(
        f"{place}.lib{title}_ort",
        [],
        **common,
        extra_compile_args=compile_args,
        extra_link_args=[*link_args, *_only_entry()],
    )
    parts = {"torch": torch_library, "numpy": numpy_module, "ort": ort_library}
    for adapter, extension in parts.items():
        extension.myops_adapter, extension.myops_kernels = adapter, kernels
        extension.myops_include_dirs = list(include_dirs)  # for the ops; the SDK needs none
    return list(parts.values())


def _check(name: str, what: str, pattern: str, expected: str) -> None:
    if not re.fullmatch(pattern, name):
        raise ValueError(f"extensions: {what}: got {name!r}, expected {expected}")


def _refuse_taken(what: str, name: str) -> None:
    # Imported here, as our own setup.py uses this file before the module exists.
    from myops import _numpy

    owner = "myops" if name.partition(".")[0] == "myops" else _numpy.taken_by(name)
    if owner:
        raise ValueError(f"extensions: {what}: got {name!r}, which belongs to {owner}")


def _only_entry() -> list[str]:
    """Shows the entry point and nothing else; a symbol that is missing fails here, not later."""
    return [f"-Wl,--version-script={_root() / 'cmake' / 'ort_exports.map'}", "-Wl,-z,defs"]


def _sources(*folders: str) -> list[str]:
    """The files of the SDK that all packages share; relative where they can be, as setuptools
    wants them."""
    csrc = _root() / "csrc"
    found = [path for name in folders for path in sorted((csrc / name).glob("*.cpp"))]
    return [_near(path) for path in found if path != csrc / NAMES]


def _near(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


class BuildExtension(cpp_extension.BuildExtension):
    """The `build_ext` of a package of ops; it builds other extensions too, as torch's does.

    It adds the sources of the SDK, gives the torch library's kernel objects to the other two, and
    gives plain libraries plain names.

    Example:
        >>> from setuptools import Distribution
        >>> made = myops.build.extensions("my_ops", ["my_op.cpp"])
        >>> command = myops.build.BuildExtension(Distribution({"ext_modules": made}))
        >>> sorted(extension.name for extension in command.distribution.ext_modules)
        ['my_ops._numpy', 'my_ops.libmy_ops_ort', 'my_ops.libmy_ops_torch']
    """

    def build_extension(self, ext: Extension) -> None:
        adapter = getattr(ext, "myops_adapter", None)
        given = ext.sources, ext.depends
        try:
            if adapter is not None:
                self._prepare(ext, adapter)
            super().build_extension(ext)
        except RuntimeError as error:  # torch's; setuptools lets optional ones fail by this
            raise CompileError(str(error)) from error
        finally:
            # An editable install lists the files of the package after it has built, and refuses
            # those elsewhere, as the SDK's are.
            ext.sources, ext.depends = given

    def _prepare(self, ext: Extension, adapter: str) -> None:
        names = _near(_root() / "csrc" / NAMES)
        folders = [f"adapters/{folder}" for folder in ADAPTERS[adapter]]
        if adapter == "torch":
            ext.sources = [*ext.myops_kernels, names]
            ext.extra_objects = self._sdk_objects(ext, _sources(*CORE, *folders))
        else:
            ext.sources = [names]
            shared = self._objects([*ext.myops_kernels, *_sources(*CORE)])
            ext.extra_objects = [*shared, *self._sdk_objects(ext, _sources(*folders))]
        ext.depends = [*_headers(ext.myops_kernels), *ext.myops_kernels, *_sdk_files("*.cpp")]

    def _sdk_objects(self, ext: Extension, sources: Sequence[str]) -> list[str]:
        """Compiles files of the SDK, or takes what an earlier build stored."""
        # Torch defines a name that the SDK does not use; the package's optimisation level is for
        # its own ops.
        own = re.compile(r"-DTORCH_EXTENSION_NAME=.*|-O\w*")
        arguments = [item for item in ext.extra_compile_args if not own.fullmatch(item)]
        arguments.append("-O3")
        macros = [item for item in ext.define_macros if item[0] not in NAME_MACROS]
        folders = [item for item in ext.include_dirs if item not in ext.myops_include_dirs]
        objects = self._objects(sources)
        flags = [*arguments, *self.compiler.compiler_so, repr(macros), f"debug {self.debug}"]
        others = [item for item in folders if item != get_include()]
        read = [*_sdk_files("*.cpp"), *_sdk_files("*.h")]
        stored = cache.entry(sources, flags, others, read, _root())
        if stored is None or not cache.copied(stored, objects):
            self.compiler.compile(
                list(sources), output_dir=self.build_temp, macros=macros, include_dirs=folders,
                debug=self.debug, extra_postargs=arguments, depends=_sdk_files("*.h"),
            )  # fmt: skip
            if stored is not None:
                cache.store(objects, stored)
        return objects

    def _objects(self, sources: Sequence[str]) -> list[str]:
        names = self.compiler.object_filenames(list(sources), output_dir=self.build_temp)
        return [os.path.abspath(name) for name in names]

    def get_ext_filename(self, fullname: str) -> str:
        if fullname.rpartition(".")[2].startswith("lib"):
            return str(Path(*fullname.split("."))) + ".so"
        return super().get_ext_filename(fullname)


def _sdk_files(pattern: str) -> list[str]:
    folders = (_root() / "csrc" / name for name in ("include", "core", "cuda", "adapters"))
    return sorted(str(path) for folder in folders for path in folder.rglob(pattern))


def _headers(kernels: Iterable[str]) -> list[str]:
    """The headers that the ops depend on: ours, and those beside the ops."""
    beside = {path for source in kernels for path in Path(source).parent.rglob("*.h")}
    return sorted({*_sdk_files("*.h"), *map(str, beside)})
