"""Refusals of calls that torch would accept with another meaning, or refuse without naming the op
and the argument. Most texts are those of csrc/core/invoke.cpp, and of calls with NumPy arrays."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import torch

from myops import _names
from myops._description import OpInfo
from myops._op_parts import AttributeInfo

Inputs = Sequence[Any]


def arguments(info: OpInfo, inputs: Inputs, attributes: dict[str, Any]) -> None:
    """Refuses what torch's dispatcher reads as something else, before it is called."""
    if all(item is None for item in inputs):  # torch finds no kernel for a call without tensors
        required = next((item for item in info.inputs if not item.optional), None)
        if required is not None and not required.variadic:
            raise RuntimeError(f"{info.name}: {required.name}: got nothing, expected a tensor")
        if required is None:
            raise RuntimeError(
                f"{info.name}: {info.inputs[0].name}: got no input at all, expected a tensor for "
                "at least one input"
            )
    if info.is_variadic and len(inputs) == len(info.inputs):
        listed = inputs[-1]
        name = info.inputs[-1].name
        if not isinstance(listed, (list, tuple)):
            got = type(listed).__name__
            raise TypeError(f"{info.name}: {name}: got {got}, expected a list of tensors")
        if not listed:
            raise RuntimeError(
                f"{info.name}: {name}: got an empty list, expected a list of at least one tensor"
            )
    wrong = info.wrong_flag(attributes)
    if wrong:
        raise RuntimeError(wrong)
    for attribute in info.attributes:
        value = attributes.get(attribute.name)
        if attribute.type == "strings" and isinstance(value, str):
            # (Torch would take the list of its characters.)
            raise RuntimeError(f"{info.name}: {attribute.name}: got {value!r}, expected strings")


def missing(info: OpInfo, attributes: dict[str, Any]) -> None:
    text = info.missing(attributes)
    if text:
        raise RuntimeError(text)


def texts(info: OpInfo, inputs: Inputs) -> None:
    for declared, item in zip(info.inputs, inputs, strict=False):
        if "string" in info.types[declared.type] and not _may_be_passed(item):
            raise RuntimeError(
                f"{info.name}: {declared.name}: got {type(item).__name__}, expected a tensor: "
                "PyTorch has no tensors of strings. Call `numpy` of what define() returned, or run "
                "the node in ONNX Runtime"
            )


def in_trace(info: OpInfo, attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes for torch.jit.trace, whose graphs have no lists of strings: without those that
    equal the default."""
    kept = dict(attributes)
    for item in info.attributes:
        given = kept.get(item.name)
        if item.type != "strings" or given is None:
            continue
        if item.default is None or list(given) != list(item.default):
            raise RuntimeError(
                f"{info.name}: {item.name}: got a list of strings in torch.jit.trace, expected "
                "none: its graphs have no such lists. Script the module, or use torch.export"
            )
        del kept[item.name]
    return kept


def unknown(info: OpInfo, attributes: dict[str, Any]) -> TypeError:
    known = [item.name for item in info.attributes]
    wrong = next(name for name in attributes if name not in known)
    listed = f"expected one of {', '.join(map(repr, known))}" if known else "expected none"
    near = _names.near_misses(wrong, [*(item.name for item in info.inputs), *known])
    return TypeError(f"{info.name}: attributes: got {wrong!r}, {listed}{near and '.' + near}")


def wrapped(info: OpInfo, inputs: Inputs) -> None:
    """Explains torch's refusal of tensors that stand for several others."""
    flat = info.flat(inputs)
    for declared, item in zip(info.expanded(len(flat)).inputs, flat, strict=False):
        if not isinstance(item, torch.Tensor):
            continue
        start = f"{info.name}: {declared.name}: got "
        if item.is_nested:
            raise RuntimeError(
                f"{start}a nested tensor, expected a dense one: call the op on each of "
                f"{declared.name}.unbind(), or on {declared.name}.to_padded_tensor(0)"
            )
        if hasattr(item, "device_mesh"):  # a DTensor, whose module may not be loaded
            raise RuntimeError(
                f"{start}a DTensor, expected a plain tensor: the op has no rule for sharded "
                f"ones. Call it on {declared.name}.to_local(), or register a rule with "
                "torch.distributed.tensor.experimental.register_sharding"
            )


def unreadable(info: OpInfo, inputs: Inputs, attributes: dict[str, Any]) -> None:
    """Names the argument that torch cannot pass on, of which it says the position only."""
    texts(info, inputs)
    flat = info.flat(inputs)
    declared = info.expanded(len(flat)).inputs
    for item, value in zip(declared, flat, strict=False):
        if not (item.values or _may_be_passed(value)):
            raise TypeError(
                f"{info.name}: {item.name}: got {type(value).__name__}, expected a Tensor"
            )
    for name in attributes:
        if all(name != item.name for item in info.attributes):
            raise unknown(info, attributes)
    for attribute in info.attributes:
        if attribute.name not in attributes:
            continue
        value = attributes[attribute.name]
        if value is None and attribute.required:
            raise RuntimeError(info.missing_text(attribute))
        absent = value is None and attribute.optional
        if not absent and not _is_readable(attribute, value):
            raise RuntimeError(
                f"{info.name}: {attribute.name}: got {value!r}, expected {attribute.type}"
            )
    names = (item.name for item in declared)
    for name, value in [*zip(names, flat, strict=False), *attributes.items()]:
        for number in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(number, int) and not -(2**63) <= number < 2**63:
                raise RuntimeError(
                    f"{info.name}: {name}: got {number}, expected integers of 64 bits"
                )


def _is_readable(attribute: AttributeInfo, value: Any) -> bool:
    kinds: Any = {
        "bool": object,  # see OpInfo.wrong_flag
        "int": (numbers.Integral, torch.SymInt, torch.Tensor),
        "float": (numbers.Real, torch.SymInt, torch.SymFloat, torch.Tensor),
        "string": str,
    }  # fmt: skip
    kind = kinds[attribute.type.rstrip("s").replace("double", "float")]
    if not attribute.is_list:
        return isinstance(value, kind)
    return isinstance(value, (list, tuple)) and all(isinstance(item, kind) for item in value)


def _may_be_passed(item: Any) -> bool:
    return item is None or isinstance(item, torch.Tensor)
