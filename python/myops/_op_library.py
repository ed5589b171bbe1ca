"""The ops of one ONNX domain, and what Python adds to their descriptions: a library."""

from __future__ import annotations

import ctypes
import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from myops import _rule_signatures
from myops._description import OpInfo
from myops._names import choose

if TYPE_CHECKING:
    from myops._torch.call import TorchOp


@dataclass(frozen=True)
class IntegerOp:
    """The op that computes a node on integers of 8 bits; see `quantized` of `Library.define`.

    It is an op of the same library, has the outputs of the node's op, and its inputs by name. For
    each input that becomes integers it has one called `<input>_scale`, and it may have one called
    `<input>_zero_point`, with shape [1], or a number for each channel. Attributes of the same name
    are taken over.

    Attributes:
        name: The name of the op.
        activations: Inputs that become uint8 or int8, with one scale.
        weights: Constant inputs that become int8, with the axis of their scales; zero points are 0.
        limits: Attributes that get the largest magnitude that an input has in the calibration.

    Example:
        >>> myops.IntegerOp("my_conv_int8", activations=("x",), weights={"w": 0})
        IntegerOp(name='my_conv_int8', activations=('x',), weights={'w': 0}, limits={})
    """

    name: str
    activations: Sequence[str] = ()
    weights: Mapping[str, int] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)


# From the attributes of a node to which output has the scale of which input, for integers; or to
# the op that takes its place.
QuantizedRule = Callable[[Mapping[str, Any]], Mapping[str, str] | IntegerOp]

_define: Callable[..., Any] | None = None


def _is_loaded(file: Path) -> bool:
    """Whether this process has loaded a binary. (The list of all that it has is long.)"""
    try:
        ctypes.CDLL(str(file), mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    except OSError:
        return False
    return True


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
        self._made: dict[str, TorchOp] = {}  # by define
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

    def remove(self, info: OpInfo) -> None:
        """Forgets an op that was added and cannot be registered."""
        del self.ops[info.name]
        self._by_type = -1, {}

    @property
    def version(self) -> int:
        """The newest version of the domain: the version of the op that changed last."""
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
        return [file for file in files if _is_loaded(file)]

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

        The callable takes the inputs in the description's order (None for one that is left out),
        then the attributes, by position or by name.

        Args:
            name: Name in the description, e.g. "my_add".
            shape: `shape(inputs, attributes)` returns the sizes of each output; it is called where
                torch traces with symbolic lengths. Where all lengths are numbers, the C++ rule is
                used. Default: the C++ rule for both, which is right if each length of an output
                is a number or a length of an input. A length that the rule computes becomes an
                unknown length in the trace; give `shape` to keep it symbolic.
            save: `save(ctx, inputs, attributes, output)` keeps what `backward` needs on `ctx`.
            backward: `backward(ctx, *grads)` returns one gradient or None for each input. Or the
                name of an op that C++ describes with `backward_of`: it is called with the
                gradients, inputs and attributes, and there is nothing to save. The op is then
                differentiable once.
            jvp: `jvp(ctx, *tangents)` returns the tangent of the output, or a tuple with one for
                each, for forward-mode differentiation; a tangent is None where the input has none,
                and for outputs of ints and bools.
            vmap: `vmap(op, info, in_dims, inputs, attributes)` returns (outputs, out_dims), where
                out_dims has the axis of the batch in each output; without it the batch is unrolled.
            standard: `standard(g)` writes the op in standard ONNX nodes and returns a list with one
                name for each output; `g` is a `myops.onnx.lowering.Builder`. Exported models then
                run in runtimes without the library, and `myops.onnx.lower` knows the op.
            quantized: `quantized(attributes)` says what the op is on integers q that stand for
                (q - zero_point) * scale: {output: input} for each output whose integers have
                scale and zero point of that input; {} where the op needs the numbers themselves.
                Or a `myops.IntegerOp`: another op of the library, which computes the node from
                integers. `myops.onnx.quantize` then runs such nodes on integers. Default: never.
            upgrade: For an op that a later version of its node replaces: `upgrade(g)` writes its
                meaning with that version, `g.next(*inputs, **attributes)`, and standard nodes where
                needed, and returns the names of the outputs. `myops upgrade` calls it.

        Raises:
            ValueError: The description has no op of that name, `backward` is not its gradient, or
                a function does not take the arguments that it will be called with.
            ImportError: The library for torch has not been built.
        """
        info = self.info(name)
        given = {"shape": shape, "save": save, "backward": backward, "jvp": jvp, "vmap": vmap,
                 "standard": standard, "quantized": quantized, "upgrade": upgrade}  # fmt: skip
        functions = {
            kind: rule for kind, rule in given.items()
            if rule is not None and not (kind == "backward" and isinstance(rule, str))
        }  # fmt: skip
        _rule_signatures.check(
            name, functions, [item.name for item in info.inputs],
            [item.name for item in info.outputs],
        )  # fmt: skip
        assert _define is not None  # `import myops` installs it
        op = _define(self, info, shape, save, backward, jvp, vmap)
        self._standards[name] = standard
        self._quantized[name] = quantized
        if upgrade is not None:
            self._upgrades[name] = upgrade
        self._made[name] = op
        op.package = self.package
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

    def made(self, name: str) -> TorchOp:
        """What `define` returned for an op."""
        self.standard_form(self.info(name))  # imports the module that calls define
        return self._made[name]

    def quantized_rule(self, info: OpInfo) -> QuantizedRule | None:
        """What says how the op works on integers; None when it does not."""
        self.standard_form(info)  # which imports the module that defines the op
        return self._quantized.get(info.name)
