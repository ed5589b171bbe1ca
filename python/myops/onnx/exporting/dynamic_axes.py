"""Dynamic lengths, in the forms of torch's two exporters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

import torch
from torch.utils import _pytree as pytree

from myops._names import near_misses
from myops._text import printable, shorten
from myops.onnx.exporting.inputs import Inputs

_MULTIPLE = re.compile(r"\s*(?:(\d+)\s*\*\s*)?([A-Za-z_]\w*)\s*")  # "32*h"


class _Titles:
    """Names of lengths in the form of torch.export, where multiples of one name share a Dim."""

    def __init__(self, axes: Mapping[str, Any]) -> None:
        given = [t for item in axes.values() if isinstance(item, Mapping) for t in item.values()]
        parts = [_MULTIPLE.fullmatch(title) for title in given if isinstance(title, str)]
        self._dims = {
            part.group(2): torch.export.Dim(part.group(2), min=1)
            for part in parts
            if part is not None and part.group(1)
        }

    def dim(self, title: Any) -> Any:
        """The entry of `dynamic_shapes` for a title."""
        if title is None:
            return torch.export.Dim.DYNAMIC
        multiple, name = multiple_of(title)
        if name not in self._dims:
            return torch.export.Dim.DYNAMIC  # axis_names.py writes the name into the file
        return multiple * self._dims[name] if multiple > 1 else self._dims[name]


def multiple_of(title: Any) -> tuple[int, str]:
    """("32*h") as (32, "h"); any other title is a name."""
    part = _MULTIPLE.fullmatch(str(title))
    return (1, str(title)) if part is None else (int(part.group(1) or 1), part.group(2))


def multiples(inputs: Inputs, axes: Mapping[str, Any] | None) -> dict[tuple[str, int], int]:
    """By input and axis, the number of which `dynamic_axes` says that the length is a multiple."""
    named = named_axes(inputs, {k: v for k, v in (axes or {}).items() if k in inputs.names}, None)
    found = {(name, axis): multiple_of(title)[0]
             for name, items in (named or {}).items() for axis, title in items.items()}  # fmt: skip
    examples = {slot.name: inputs.tensor(slot) for slot in inputs.slots}
    for (name, axis), multiple in found.items():
        length = examples[name].shape[axis]
        if multiple < 1 or length % multiple:
            raise ValueError(
                f"export: dynamic_axes: {name}: got an example of length {length} on axis {axis}, "
                f"expected a multiple of {multiple}, as dynamic_axes says"
            )
    return {axis: multiple for axis, multiple in found.items() if multiple > 1}


def named_axes(
    inputs: Inputs, axes: Mapping[str, Any] | None, output_names: Any
) -> dict[str, dict[int, str]] | None:
    """`dynamic_axes` with a name for every axis, which the TorchScript exporter needs."""
    if axes is None:
        return None
    check_names(inputs, axes, output_names)
    tensors = {slot.name: inputs.tensor(slot) for slot in inputs.slots}
    result = {}
    for name, given in axes.items():
        items = dict(given) if isinstance(given, Mapping) else dict.fromkeys(given)
        if name in tensors:
            items = {_axis(name, tensors[name], axis): title for axis, title in items.items()}
        result[name] = {axis: str(title or f"{name}_{axis}") for axis, title in items.items()}
    return result


def check_names(inputs: Inputs, axes: Mapping[str, Any], output_names: Any) -> None:
    """Refuses dynamic axes for names that are neither inputs nor outputs.

    Before the export too: without these axes, examples may not fit each other.
    """
    known = [*inputs.names, *(output_names or ())]
    for name, given in axes.items():
        if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
            raise TypeError(
                f"export: dynamic_axes: {name}: got {shorten(printable(repr(given)), 100)}, "
                "expected a dict of names by axis, or a list of axes"
            )
    for name in axes:
        if name not in known:
            raise ValueError(
                f"export: dynamic_axes: got {name!r}, expected one of {', '.join(known)}."
                f"{near_misses(str(name), known)}"
            )


def shapes_from_axes(inputs: Inputs, axes: Mapping[str, Any] | None, output_names: Any) -> Any:
    """`dynamic_axes` as the `dynamic_shapes` of torch.export; None for None."""
    if axes is None:
        return None
    check_names(inputs, axes, output_names)
    names, titles = iter(inputs.names), _Titles(axes)

    def entry(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return None
        name = next(names)
        return _dims(name, leaf, axes.get(name), titles)

    return {parameter: pytree.tree_map(entry, value) for parameter, value in inputs.values.items()}


def titles(inputs: Inputs, axes: Mapping[str, Any] | None, shapes: Any) -> dict[str, Any]:
    """The names that the caller gave to axes of inputs, in either form."""
    if axes is not None:
        given = {name: item for name, item in axes.items() if name in inputs.names}
        found = named_axes(inputs, given, None) or {}
    else:
        found = axes_from_shapes(inputs, shapes) or {}
    return {
        name: {axis: title for axis, title in items.items() if title != f"{name}_{axis}"}
        for name, items in found.items()
    }


def axes_from_shapes(inputs: Inputs, shapes: Any) -> dict[str, dict[int, str]] | None:
    """`dynamic_shapes` as the `dynamic_axes` of the TorchScript exporter; None for None."""
    if shapes is None:
        return None
    found = {name: _named(name, tensor, spec) for name, tensor, spec in specs(inputs, shapes)}
    return {name: axes for name, axes in found.items() if axes}


def specs(inputs: Inputs, shapes: Any) -> list[tuple[str, torch.Tensor, Any]]:
    """For each input of the graph its name, its example and its entry of `dynamic_shapes`."""
    values = inputs.values
    if not isinstance(shapes, (Mapping, list, tuple)):
        _refuse_shapes("", shapes, "a dict by the parameters of forward, or a list in their order")
    if not isinstance(shapes, Mapping):
        shapes = dict(zip(values, shapes, strict=False))
    for name in shapes:
        if name not in values:
            raise ValueError(
                f"export: dynamic_shapes: got {name!r}, expected parameters of forward: "
                f"{', '.join(values)}.{near_misses(str(name), values)}"
            )
    entries = [s for name, value in values.items() for s in _leaf_specs(value, shapes.get(name))]
    found = [
        (slot.name, inputs.tensor(slot), spec)
        for slot, spec in zip(inputs.slots, entries, strict=True)
    ]
    for name, tensor, spec in found:
        _check_spec(name, tensor, spec)
    return found


def _check_spec(name: str, tensor: torch.Tensor, spec: Any) -> None:
    """Refuses what torch.export takes for no entry of a tensor."""
    if spec is None:
        return
    if not isinstance(spec, (Mapping, list, tuple)):
        _refuse_shapes(name, spec, "a dict of dims by axis, a list of dims, or None")
    rank = tensor.dim()
    for axis, dim in spec.items() if isinstance(spec, Mapping) else enumerate(spec):
        if not isinstance(axis, int) or not -rank <= axis < rank:
            _refuse_shapes(name, axis, f"axes from {-rank} to {rank - 1}")
        # A Dim is a class in some versions of torch, a hint such as Dim.AUTO an object.
        if not (dim is None or isinstance(dim, (int, str, type)) or "Dim" in type(dim).__name__):
            _refuse_shapes(name, dim, "a torch.export.Dim, a name, a length or None")


def _refuse_shapes(name: str, got: Any, expected: str) -> NoReturn:
    where = f"export: dynamic_shapes: {name}: " if name else "export: dynamic_shapes: "
    raise TypeError(f"{where}got {shorten(printable(repr(got)), 100)}, expected {expected}")


def _dims(name: str, tensor: torch.Tensor, axes: Any, titles: _Titles) -> dict[int, Any] | None:
    """One entry of dynamic_axes as one of dynamic_shapes."""
    if axes is None:
        return None
    items = dict(axes) if isinstance(axes, Mapping) else dict.fromkeys(axes)
    return {_axis(name, tensor, axis): titles.dim(title) for axis, title in items.items()}


def asked(inputs: Inputs, axes: Mapping[str, Any] | None, shapes: Any) -> list[tuple[str, int]]:
    """The axes that should be dynamic, by name of the input; not those that torch may fix."""
    if axes is not None:
        given = {name: item for name, item in axes.items() if name in inputs.names}
        named = named_axes(inputs, given, None) or {}
        return [(name, axis) for name, items in named.items() for axis in items]
    auto = getattr(torch.export.Dim, "AUTO", None)
    found = []
    for name, tensor, spec in specs(inputs, shapes) if shapes is not None else ():
        items = spec.items() if isinstance(spec, Mapping) else enumerate(spec or ())
        kept = {axis: dim for axis, dim in items if dim is not auto}
        found += [(name, axis) for axis in _named(name, tensor, kept)]
    return found


def _axis(name: str, tensor: torch.Tensor, axis: Any) -> int:
    if not isinstance(axis, int) or not -tensor.dim() <= axis < tensor.dim():
        raise ValueError(
            f"export: dynamic_axes: {name}: got axis {axis!r}, expected an int from "
            f"{-tensor.dim()} to {tensor.dim() - 1}"
        )
    return axis % tensor.dim()


def _leaf_specs(value: Any, spec: Any) -> list[Any]:
    """The entry of dynamic_shapes for each tensor in the value of a parameter."""
    if isinstance(value, torch.Tensor):
        return [spec]
    kinds = (Mapping,) if isinstance(value, Mapping) else (list, tuple)
    if isinstance(value, (Mapping, list, tuple)) and spec is not None:
        missing = [] if isinstance(spec, kinds) else [spec]
        if isinstance(value, Mapping) and not missing:
            missing = [key for key in value if key not in spec]
        elif not missing and len(spec) != len(value):
            missing = [spec]
        if missing:
            _refuse_shapes("", missing[0], "entries of the same structure as the inputs, or None")
    if isinstance(value, Mapping):
        return [s for key, item in value.items()
                for s in _leaf_specs(item, None if spec is None else spec[key])]  # fmt: skip
    if isinstance(value, (list, tuple)):
        return [s for number, item in enumerate(value)
                for s in _leaf_specs(item, None if spec is None else spec[number])]  # fmt: skip
    return []


def _named(name: str, tensor: torch.Tensor, spec: Any) -> dict[int, str]:
    if spec is None:
        return {}
    items = spec.items() if isinstance(spec, Mapping) else enumerate(spec)
    static = getattr(torch.export.Dim, "STATIC", None)
    found = {}
    for axis, dim in items:
        if dim is None or isinstance(dim, int) or dim is static:
            continue
        title = dim if isinstance(dim, str) else getattr(dim, "__name__", None)
        found[axis % tensor.dim()] = title or f"{name}_{axis % tensor.dim()}"
    return found


def limits(inputs: Inputs, shapes: Any) -> dict[tuple[str, int], tuple[int, int]]:
    """Shortest and longest length by input and axis, where a torch.export.Dim states them."""
    found = {}
    for name, tensor, spec in specs(inputs, shapes) if shapes is not None else ():
        if spec is None:
            continue
        for axis, dim in spec.items() if isinstance(spec, Mapping) else enumerate(spec):
            low, high = getattr(dim, "min", None), getattr(dim, "max", None)
            found[name, axis % tensor.dim()] = (
                low if isinstance(low, int) else 1,
                high if isinstance(high, int) else 2**31,  # otherwise it is sympy's infinity
            )
    return found
