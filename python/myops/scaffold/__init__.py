"""A small package to start from: `myops new`. What it writes lies in template/, as it is written;
with a kernel for NVIDIA GPUs also in template_cuda/.

The words my_package, soft_clip and SoftClip there become the names of the new package.
"""

from __future__ import annotations

import keyword
import os
import re
import sys
from pathlib import Path

from myops import _numpy
from myops._checked import checked

__all__ = ["new_package"]

_TEMPLATE = Path(__file__).parent / "template"
_CUDA_TEMPLATE = Path(__file__).parent / "template_cuda"
_SUFFIXES = (".py", ".pyi", ".cpp", ".h", ".toml")
# What a kernel for CUDA changes in the files of template/: file, text there, text in its place.
_CUDA_CHANGES = (
    (
        "csrc/soft_clip.cpp",
        '#include "myops/op.h"\n',
        '#include "myops/op.h"\n\n'
        "void soft_clip_on_cuda(myops::KernelContext& context);  // cuda/soft_clip.cpp\n",
    ),
    (
        "csrc/soft_clip.cpp",
        "      .kernel(compute);\n",
        "      .kernel(compute)\n      .cuda(soft_clip_on_cuda);\n",
    ),
    (
        "setup.py",
        'myops.build.extensions("my_package"),  # every .cpp file in csrc/\n',
        # The folder that the names of CUDA sources begin in.
        'myops.build.extensions("my_package", include_dirs=["csrc"]),\n',
    ),
)
# A package of such a name would hide one that it needs.
_TAKEN = (
    *("myops", "torch", "torchvision", "numpy", "onnx", "onnxruntime", "onnxscript", "setuptools"),
    *("pybind11", "pytest", "ninja", "ml_dtypes", "tests", "csrc", "build", "dist", "setup"),
)


@checked()
def new_package(
    name: str, directory: str | os.PathLike[str] = ".", *, op: str = "soft_clip", cuda: bool = False
) -> Path:
    """Writes a small package with an op of its own: description, kernel, gradient, types, tests.

    `pip install --no-build-isolation .` in its folder builds it; then its op has everything that
    ours have. The op computes limit * tanh(x / limit): change it to what yours computes.

    Args:
        name: Name of the package: of the Python package, the ONNX domain and the namespace in
            torch.ops. Lower-case letters, digits and underscores.
        directory: Where the new folder `name` goes.
        op: Name of the op, in the same letters; its node is called the same in CamelCase.
        cuda: Whether the op gets a kernel for NVIDIA GPUs too. Building it needs nothing of CUDA.

    Returns:
        The new folder.

    Raises:
        ValueError: A name that cannot be one, or that is taken.
        TypeError: A name that is no text.
        FileExistsError: The folder is there already; nothing was written.

    Example:
        >>> myops.new_package("my_kernels", op="swish")
        PosixPath('my_kernels')
    """
    _check(name, "the package")
    _check(op, "the op")
    if name in _TAKEN or name in sys.stdlib_module_names or _numpy.taken_by(name):
        raise ValueError(
            f"new: the name of the package: got {name!r}, which is taken by another package or by "
            f"a namespace of torch; try {name + '_ops'!r}"
        )
    if os.path.exists(directory) and not os.path.isdir(directory):
        raise NotADirectoryError(f"new: {os.fspath(directory)}: got a file, expected a folder")
    folder = Path(directory) / name
    if folder.exists():
        raise FileExistsError(f"new: {folder} exists already; nothing was written")
    names = {"my_package": name, "soft_clip": op, "SoftClip": camel_case(op)}
    for file, text in _files(cuda).items():
        target = folder / _named(file, names)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_named(text, names), encoding="utf-8")
    return folder


def _files(cuda: bool) -> dict[str, str]:
    """The files by name, with the names of the template."""
    found = {}
    for template in (_TEMPLATE, _CUDA_TEMPLATE)[: 1 + cuda]:
        for source in sorted(path for path in template.rglob("*") if path.is_file()):
            # Python may have left compiled files there
            if source.suffix in _SUFFIXES or source.name == "py.typed":
                name = source.relative_to(template).as_posix()
                found[name] = source.read_text(encoding="utf-8")
    for file, before, after in _CUDA_CHANGES if cuda else ():
        if before not in found[file]:
            raise AssertionError(f"scaffold: {file} has no {before!r}")
        found[file] = found[file].replace(before, after)
    return found


def camel_case(name: str) -> str:
    """The name of the node of an op: "soft_clip" gives "SoftClip"."""
    return "".join(word[:1].upper() + word[1:] for word in name.split("_"))


def _check(name: str, what: str) -> None:
    if not isinstance(name, str):
        raise TypeError(f"new: the name of {what}: got {name!r}, expected a text")
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name) or keyword.iskeyword(name):
        wish = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
        good = re.fullmatch(r"[a-z]\w*", wish) and not keyword.iskeyword(wish)
        hint = f", such as {wish!r}" if good else ""
        raise ValueError(
            f"new: the name of {what}: got {name!r}, expected lower-case letters, digits and "
            f"single underscores, a letter first, and no keyword of Python{hint}"
        )


def _named(text: str, names: dict[str, str]) -> str:
    """All words at once: a new name may contain another's word."""
    return re.sub("|".join(names), lambda found: names[found.group()], text)
