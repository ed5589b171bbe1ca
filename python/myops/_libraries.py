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
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from myops import _description, _numpy, _prepared
from myops._description import OpInfo
from myops._names import choose

if TYPE_CHECKING:
    from myops._torch.call import TorchOp

ENTRY_POINTS = "myops.libraries"

_STANDARD = ("", "ai.onnx", "ai.onnx.ml")

# From the attributes of a node to which output has the scale of which input, for integers.
QuantizedRule = Callable[[Mapping[str, Any]], Mapping[str, str]]

_define: Callable[..., Any] | None = None


def install_define(function: Callable[..., Any]) -> None:
    """Says what gives an op its torch side, for `Library.define`: this file knows neither torch
    nor ONNX, and libraries, sessions and graph tools need neither."""
    global _define
    _define = function


class Library:
    """The ops of one ONNX domain, as `op_library` returns them.

    Attributes:
        domain: ONNX domain of the nodes.
        namespace: Namespace in torch.ops.
        package: The package that it was built into; "" for prototypes.
        ops: Name -> description.
    """

    def __init__(
        self,
        domain: str,
        namespace: str,
        package: str = "",
        folder: Path | None = None,
        module: str = "",
    ) -> None:
        self.domain = domain
        self.namespace = namespace
        self.package = package
        self.ops: dict[str, OpInfo] = {}
        self._folder = folder  # of the native libraries; None: there are none
        self._module = module or package  # where `define` is called for the op {name}
        self._standards: dict[str, Callable[[Any], list[str]] | None] = {}
        self._quantized: dict[str, QuantizedRule | None] = {}
        self._upgrades: dict[str, Callable[[Any], list[str]]] = {}
        self._by_type: tuple[int, dict[str, list[OpInfo]]] = (0, {})  # for how many ops; the index

    def __repr__(self) -> str:
        return f"<op library {self.domain!r}: {', '.join(sorted(self.ops))}>"

    def add(self, info: OpInfo) -> None:
        """Makes an op known."""
        if info.is_prototype and self.package and info.name in self.ops:
            raise ValueError(
                f"prototype: {info.name}: the package {self.package!r}, which is installed, has "
                f"{info.node} already. Call that op (`import {self.package}`); to run the "
                f'prototype beside it, give it another domain, such as "{self.domain}_draft"; to '
                f"run it in place of it, `pip uninstall {self.package}`"
            )
        versions = self.versions(info.onnx_type)
        if info.name in self.ops or any(
            other.since_version == info.since_version for other in versions
        ):
            raise ValueError(
                f"{info.name}: {info.qualified} or {info.node} is defined already in this process. "
                "Give the op another name, or restart the process. (The same description again, "
                "with the same rules, is fine for a prototype.)"
            )
        self.ops[info.name] = info

    @property
    def version(self) -> int:
        """The newest version of the domain: that of the op that changed last."""
        return max((info.since_version for info in self.ops.values() if info.onnx_type), default=1)

    def versions(self, onnx_type: str) -> list[OpInfo]:
        """The ops behind the nodes of a type, one for each version of its meaning, oldest first."""
        count, index = self._by_type
        if count != len(self.ops):
            index = {}
            for info in sorted(self.ops.values(), key=lambda info: info.since_version):
                index.setdefault(info.onnx_type, []).append(info)
            index.pop("", None)
            self._by_type = len(self.ops), index
        return index.get(onnx_type, [])

    @property
    def ort_library(self) -> Path | None:
        """The custom-op library for ONNX Runtime; None for prototypes, which have none."""
        return self._file("ort", FileNotFoundError)

    @property
    def torch_library(self) -> Path | None:
        """The library of the dispatcher's ops; None for prototypes, which have none."""
        return self._file("torch", ImportError)

    def loaded(self) -> list[Path]:
        """The binaries for torch and ONNX Runtime that this process has loaded."""
        title = self.package.rpartition(".")[2]
        files = [] if self._folder is None else [
            self._folder / f"lib{title}_{runtime}.so" for runtime in ("torch", "ort")
        ]  # fmt: skip
        mapped = Path("/proc/self/maps").read_text()
        return [file for file in files if str(file.resolve()) in mapped]

    def _file(self, runtime: str, error: type[Exception]) -> Path | None:
        if self._folder is None:
            return None
        title = self.package.rpartition(".")[2]
        file = self._folder / f"lib{title}_{runtime}.so"
        if not file.is_file():
            where = "onnxruntime" if runtime == "ort" else runtime
            raise error(
                f"the library of {title} for {where} is missing: {file}. Build it with "
                "`pip install .` in the package's folder, or reinstall the package."
            )
        return file

    def define(
        self,
        name: str,
        *,
        shape: Callable[..., Any] | None = None,
        save: Callable[..., None] | None = None,
        backward: Callable[..., Any] | str | None = None,
        jvp: Callable[..., Any] | None = None,
        vmap: Callable[..., Any] | None = None,
        standard: Callable[[Any], list[str]] | None = None,
        quantized: QuantizedRule | None = None,
        upgrade: Callable[[Any], list[str]] | None = None,
    ) -> TorchOp:
        """Gives the op `name` what cannot be derived from its description; returns a callable.

        The callable takes the inputs in the description's order (None for one that is left out)
        and the attributes by name.

        Args:
            name: Name in the description, e.g. "my_add".
            shape: `shape(inputs, attributes)` returns the sizes of each output; it is called where
                torch traces with symbolic lengths. Where all are numbers, the C++ rule is used.
                Default: the C++ rule there too, which is right where each length of an output is
                one of an input, or a number. A length that the rule computes from others becomes
                an unknown one in the trace: state such rules here.
            save: `save(ctx, inputs, attributes, output)` keeps what `backward` needs on `ctx`.
            backward: `backward(ctx, *grads)` returns one gradient or None for each input. Or the
                name of an op that C++ describes with `backward_of`: it is called with the
                gradients, inputs and attributes, and there is nothing to save. The op is then
                differentiable once.
            jvp: `jvp(ctx, *tangents)` returns the tangent of the output, for forward-mode
                differentiation; a tangent is None where the input has none.
            vmap: `vmap(op, info, in_dims, inputs, attributes)` returns (outputs, out_dims); without
                it the batch is unrolled.
            standard: `standard(g)` writes the op in standard ONNX nodes and returns the names of
                its outputs; `g` is a `myops.onnx.lowering.Builder`. Exported models then run in
                runtimes without the library, and `myops.onnx.lower` knows the op.
            quantized: `quantized(attributes)` says what the op is on integers q that stand for
                (q - zero_point) * scale: {output: input} for each output whose integers have
                scale and zero point of that input; {} where the op needs the numbers themselves.
                `myops.onnx.quantize` then runs such nodes on integers. Default: never.
            upgrade: For an op that a later version of its node replaces: `upgrade(g)` writes its
                meaning with that version, `g.next(*inputs, **attributes)`, and standard nodes where
                needed, and returns the names of the outputs. `myops upgrade` calls it.

        Raises:
            ValueError: The description has no op of that name, or `backward` is not its gradient.
            ImportError: The library for torch has not been built.
        """
        info = self.info(name)
        assert _define is not None  # `import myops` installs it
        op = _define(self, info, shape, save, backward, jvp, vmap)
        self._standards[name] = standard
        self._quantized[name] = quantized
        if upgrade is not None:
            self._upgrades[name] = upgrade
        return op

    def info(self, name: str) -> OpInfo:
        """The description of an op.

        Raises:
            ValueError: The library has none of that name.
        """
        return self.ops[choose(name, self.ops, f"the op library {self.domain!r} has")]

    def upgrade_form(self, info: OpInfo) -> Callable[[Any], list[str]] | None:
        """The function that writes the op with its next version; None when it has none."""
        self.standard_form(info)  # imports the module that calls define
        return self._upgrades.get(info.name)

    def standard_form(self, info: OpInfo) -> Callable[[Any], list[str]] | None:
        """The function that writes the op in standard nodes; None when the op has none."""
        if info.name not in self._standards and self._module:
            importlib.import_module(self._module.format(name=info.name))
        return self._standards.get(info.name)

    def quantized_rule(self, info: OpInfo) -> QuantizedRule | None:
        """What says how the op works on integers; None when it does not."""
        self.standard_form(info)  # which imports the module that defines the op
        return self._quantized.get(info.name)


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
_packages: dict[str, Library] = {}


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
                    f"prototype: namespace: {namespace!r} is that of the domain {other.domain!r} "
                    "already; give another one"
                )
        library = _known[domain] = Library(domain, namespace)
    elif library is OURS or library.namespace != namespace:
        raise ValueError(
            f"prototype: domain {domain!r}, namespace {namespace!r}: the domain is taken by "
            f"{library!r} with the namespace {library.namespace!r}"
        )
    return library


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

    Example:
        >>> library = myops.op_library("my_kernels")
        >>> soft_clip = library.define("soft_clip")
        >>> soft_clip(torch.tensor([0.0, 100.0]), limit=2.0)
        tensor([0., 2.])
    """
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
