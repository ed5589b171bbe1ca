"""What an op looks like, read from the C++ descriptions. Needs NumPy, never torch.

`OPS`, `onnx_ops` and `by_onnx_type` are the ops of myops itself; those of other libraries are in
`_libraries`. `_shape_rule` runs their shape rules, `_numpy_call` their kernels.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from myops import _dtypes, _numpy
from myops._op_parts import KINDS, AttributeInfo, InputInfo, OutputInfo, float32

DOMAIN: str = _numpy.DOMAIN
VERSION = "since_version"  # the attribute of a node with the version that it means; default 1


@dataclass(frozen=True)
class OpInfo:
    domain: str  # of the node
    namespace: str  # in torch.ops
    name: str  # of torch and Python
    onnx_type: str  # of the node; empty for an op that has none
    since_version: int
    doc: str
    types: dict[str, tuple[str, ...]]
    inputs: tuple[InputInfo, ...]
    outputs: tuple[OutputInfo, ...]
    attributes: tuple[AttributeInfo, ...]
    rule: str  # the shape rule, where it is text; else empty
    autocast: str  # "", or what torch.autocast casts to: lower, float32, widest
    random: bool  # its last input is then the key, its last attribute the seed
    native: Any = field(repr=False, compare=False)  # the C++ side: its kernel, its shape rule
    in_place: str = ""  # the op that writes, of which this one is the form without writes

    @property
    def node(self) -> str:
        """Domain and type of the node, as in "myops::Resize"."""
        return f"{self.domain}::{self.onnx_type}"

    @property
    def qualified(self) -> str:
        """The dispatcher's name, as in "myops::resize"."""
        return f"{self.namespace}::{self.name}"

    @property
    def is_prototype(self) -> bool:
        """Whether a Python function computes it: ONNX Runtime then runs it as a PyOp only."""
        return getattr(self.native, "is_prototype", False)

    @functools.cached_property
    def _floats(self) -> frozenset[str]:
        return frozenset(a.name for a in self.attributes if a.type in ("float", "floats"))

    def rounded(self, attributes: dict[str, Any]) -> dict[str, Any]:
        """The attributes as kernels see them: floats of 32 bits. The same object if they are."""
        changed = {}
        for name in self._floats.intersection(attributes):
            value = attributes[name]
            kept = float32(value)
            if kept != value and kept == kept:  # NaN stays
                changed[name] = kept
        return {**attributes, **changed} if changed else attributes

    def missing(self, attributes: Mapping[str, Any]) -> str:
        """The message of the C++ for a call without a required attribute; "" if none is missing."""
        for item in self.attributes:
            if item.required and attributes.get(item.name) is None:
                return self.missing_text(item)
        return ""

    def missing_text(self, item: AttributeInfo) -> str:
        return (
            f"{self.name}: {item.name}: got nothing, expected {KINDS[item.type]}: the attribute is "
            "required"
        )

    def wrong_flag(self, attributes: Mapping[str, Any]) -> str:
        """The message for a call that gives a bool attribute something else; "" if none does.

        torch's dispatcher takes None, and any number, for a bool. 0 and 1 are what ONNX has.
        """
        for item in self.attributes:
            if item.type != "bool" or item.name not in attributes:
                continue
            value = attributes[item.name]
            if isinstance(value, bool):  # to torch.compile, one that follows lengths is a bool too
                continue
            absent = value is None and (item.optional or item.required)  # see `missing`
            if isinstance(value, (int, np.integer)) and value not in (0, 1):
                value = int(value)  # may be symbolic while torch.compile traces
            elif isinstance(value, (float, np.floating)):
                value = float(value)
            elif absent or not (value is None or isinstance(value, (str, list, tuple))):
                continue  # among others a SymBool of torch
            return f"{self.name}: {item.name}: got {value!r}, expected bool"
        return ""

    def complete(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Every attribute of a call: what it gives, or else the default. (To torch's dispatcher,
        None means an empty list, too.) Lists are lists, whatever the caller gave."""
        found = {}
        for item in self.attributes:
            value = attributes.get(item.name)
            value = item.default if value is None else value
            found[item.name] = list(value) if item.is_list and value is not None else value
        return found

    @property
    def has_values(self) -> bool:
        return any(item.values for item in self.inputs)

    @functools.cached_property
    def is_variadic(self) -> bool:
        """Whether the last input is a list of tensors."""
        return bool(self.inputs) and self.inputs[-1].variadic

    @functools.cached_property
    def is_plain(self) -> bool:
        """Whether it has one tensor for each input, and writes into none."""
        return not self.is_variadic and not self.writes

    @functools.cached_property
    def writes(self) -> bool:
        """Whether the kernel writes into inputs."""
        return any(item.written for item in self.inputs)

    def is_integer(self, item: InputInfo) -> bool:
        return _dtypes.is_integer(self.types[item.type][0])

    def declared(self, number: int) -> InputInfo:
        """The description of the tensor with this number in `flat`."""
        return self.inputs[min(number, len(self.inputs) - 1)]

    def expanded(self, count: int) -> OpInfo:
        """The description with one input for each of the `count` tensors of a call or node.

        The same object where no input is variadic.
        """
        if not self.is_variadic:
            return self
        *fixed, listed = self.inputs
        items = [
            dataclasses.replace(listed, name=f"{listed.name}_{number}", variadic=False)
            for number in range(count - len(fixed))
        ]
        return dataclasses.replace(self, inputs=(*fixed, *items))

    def flat(self, inputs: Sequence[Any]) -> list[Any]:
        """One entry for each tensor: the list in the place of a variadic input is unpacked."""
        if not self.is_variadic or len(inputs) < len(self.inputs):
            return list(inputs)
        return [*inputs[:-1], *inputs[-1]]

    def nested(self, flat: Sequence[Any]) -> list[Any]:
        """The opposite of `flat`."""
        if not self.is_variadic:
            return list(flat)
        fixed = len(self.inputs) - 1
        return [*flat[:fixed], list(flat[fixed:])]

    def present(self, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> list[bool]:
        """Which outputs a call computes (see `OutputInfo.only_if`)."""
        return [not item.only_if or self._given(item.only_if, inputs, attributes)
                for item in self.outputs]  # fmt: skip

    def _given(self, name: str, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> bool:
        for item, value in zip(self.inputs, inputs, strict=False):
            if item.name == name:
                return value is not None
        for attribute in self.attributes:
            if attribute.name == name:
                return bool(attributes.get(name, attribute.default))
        return False  # an input behind those that were given


def read(native: Any, domain: str, namespace: str) -> OpInfo:
    """The description of an op of a `_numpy` module."""
    raw = native.describe()
    return OpInfo(
        **{
            **raw,
            "domain": domain,
            "namespace": namespace,
            "inputs": tuple(InputInfo(**item) for item in raw["inputs"]),
            "outputs": tuple(OutputInfo(**item) for item in raw["outputs"]),
            "attributes": tuple(AttributeInfo(**item) for item in raw["attributes"]),
            "native": native,
        }
    )


def read_all(module: Any) -> dict[str, OpInfo]:
    """The ops of a `_numpy` module, by name."""
    infos = [read(native, module.DOMAIN, module.NAMESPACE) for native in module.OPS]
    return {info.name: info for info in infos}


OPS: dict[str, OpInfo] = read_all(_numpy)


def onnx_ops() -> list[OpInfo]:
    """The ops of myops itself that have an ONNX node."""
    return [info for info in OPS.values() if info.onnx_type]


def by_onnx_type(onnx_type: str) -> OpInfo:
    """The op of myops itself whose ONNX node is `onnx_type`; KeyError when there is none."""
    for info in onnx_ops():
        if info.onnx_type == onnx_type:
            return info
    raise KeyError(onnx_type)
