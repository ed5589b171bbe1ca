"""The op libraries that this process knows: ours, those of other packages, and prototypes.

Each has an ONNX domain and a namespace in torch.ops of its own. A package's library becomes known
when the package is imported, when somebody calls `op_library`, or when a model names its domain and
the package states it in its metadata:

    [project.entry-points."myops.libraries"]
    my_domain = "my_package"
"""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from typing import Any

from myops import _description, _numpy, _prepared
from myops._checked import checked
from myops._description import OpInfo
from myops._op_library import Library

ENTRY_POINTS = "myops.libraries"

_STANDARD = ("", "ai.onnx", "ai.onnx.ml")

OURS = Library(
    _description.DOMAIN,
    _numpy.NAMESPACE,
    "myops",
    Path(__file__).parent / "lib",
    "myops.ops.{name}",
)
OURS.ops.update(_description.OPS)
_prepared.register(_numpy.forget_prepared)

_known: dict[str, Library] = {OURS.domain: OURS}
_packages: dict[str, Library] = {OURS.package: OURS}


def known() -> list[Library]:
    """The libraries that this process knows so far, ours first."""
    return list(_known.values())


def find(domain: str) -> Library | None:
    """The library of a domain: a known one, or one of an installed package."""
    if domain not in _known and domain not in _STANDARD and domain in installed():
        op_library(installed()[domain])
    return _known.get(domain)


def find_node(domain: str, op_type: str, version: int | None = None) -> OpInfo | None:
    """The op behind the node `domain::op_type`; None when no library has it.

    version: Of its meaning. Default: the newest.
    """
    library = find(domain)
    versions = [] if library is None else library.versions(op_type)
    if version is None:
        return versions[-1] if versions else None
    return next((info for info in versions if info.since_version == version), None)


def op_of(node: Any) -> OpInfo | None:
    """The op that an onnx.NodeProto means; None when no library has it in that version."""
    return find_node(node.domain, node.op_type, stated_version(node))


def stated_version(node: Any) -> int:
    """The version of its meaning that a node states.

    Not that of the model's domain: ONNX Runtime chooses a custom op by its name alone.
    """
    for attribute in node.attribute:
        if attribute.name == _description.VERSION:
            return int(attribute.i)
    return 1


def newest_version(domain: str) -> int:
    """The newest version of a domain that this process knows."""
    library = find(domain)
    return 1 if library is None else library.version


def nodes() -> list[OpInfo]:
    """The ops with an ONNX node, of all known libraries."""
    return [info for library in known() for info in library.ops.values() if info.onnx_type]


@functools.cache
def installed() -> dict[str, str]:
    """Domain -> package, of the installed packages that state it."""
    from importlib.metadata import entry_points  # not for each `import myops`

    return {item.name: item.value for item in entry_points(group=ENTRY_POINTS)}


def of_prototypes(domain: str, namespace: str) -> Library:
    """The library that a prototype of `domain` goes to; a new one where there is none."""
    library = find(domain)
    if library is None:
        for other in known():
            if other.namespace == namespace:
                raise ValueError(
                    f"prototype: namespace: {namespace!r} belongs to the domain {other.domain!r} "
                    "already; give another one"
                )
        library = _known[domain] = Library(domain, namespace)
    elif library is OURS or library.namespace != namespace:
        raise ValueError(
            f"prototype: domain {domain!r}, namespace {namespace!r}: the domain is taken by "
            f"{library!r} with the namespace {library.namespace!r}"
        )
    return library


@checked()
def op_library(package: str) -> Library:
    """Opens the op library that `myops.build` built into a package.

    Args:
        package: Name of the package; in its own `__init__.py` that is `__name__`. The package is
            not imported, and neither is torch: until an op is called in torch, ONNX tools and
            sessions need only the description and the library for ONNX Runtime.

    Returns:
        The library; the same at every call. From now on `myops.onnx` knows its nodes, and
        `myops.ort.session` registers it.

    Raises:
        ImportError: There is no such package, it was not built, or another version of myops
            built it.
        ValueError: Another library in this process has its domain or namespace.
        TypeError: `package` is not a string.

    Example:
        >>> library = myops.op_library("my_kernels")
        >>> soft_clip = library.define("soft_clip")
        >>> soft_clip(torch.tensor([0.0, 100.0]), limit=2.0)
        tensor([0., 2.])
    """
    if not isinstance(package, str):
        raise TypeError(f"op_library: got {package!r}, expected the name of a package, a text")
    if package in _packages:
        return _packages[package]
    folder = _folder_of(package)
    module = _load(package, folder)
    for other in known():
        if other.domain == module.DOMAIN or other.namespace == module.NAMESPACE:
            advice = (
                "Give the package another one where setup.py calls myops.build.extensions."
                if other.package
                else "Prototypes of this process have it: restart Python, without them."
            )
            raise ValueError(
                f"op_library({package!r}): its domain {module.DOMAIN!r} or its namespace "
                f"{module.NAMESPACE!r} is taken by {other!r}. {advice}"
            )
    _prepared.register(module.forget_prepared)
    library = Library(module.DOMAIN, module.NAMESPACE, package, folder)
    for info in _description.read_all(module).values():
        library.add(info)
    _packages[package] = _known[library.domain] = library
    return library


def _folder_of(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    places = None if spec is None else spec.submodule_search_locations
    if not places:
        raise ImportError(f"op_library: got {package!r}, expected the name of a package")
    return Path(next(iter(places)))


def restored(package: str, name: str) -> Any:
    """An op of a package that was pickled: what `define` returns for it in this process."""
    return op_library(package).made(name)


def _load(package: str, folder: Path) -> Any:
    """The module `_numpy` of a package, without importing the package itself."""
    name = f"{package}._numpy"
    if name in sys.modules:
        return sys.modules[name]
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        file = folder / f"_numpy{suffix}"
        if file.is_file():
            break
    else:
        raise ImportError(
            f"op_library({package!r}): {folder} has no compiled module _numpy for this Python. "
            "Build it with `pip install .` in the package's folder, or reinstall the package."
        )
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None  # the suffix is one of an extension module
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if getattr(module, "INTERFACE", None) != _numpy.INTERFACE:
        raise ImportError(
            f"op_library({package!r}): the package was built with another version of myops. "
            "Build it again with `pip install --no-build-isolation --force-reinstall .`"
        )
    sys.modules[name] = module
    return module
