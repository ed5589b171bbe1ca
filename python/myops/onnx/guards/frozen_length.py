"""The part of the check "frozen_input" about lengths: frozen axes and attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from myops.onnx.exporting.recorded import Attribute, constant_arguments
from myops.onnx.guards import _advice
from myops.onnx.guards._changes import resized
from myops.onnx.guards._errors import ExportCheckError
from myops.onnx.guards._exported import Exported

NAME = "frozen_input"
# New lengths from the example's, of all dynamic axes at once.
_LENGTHS = (lambda n: 2 * n, lambda n: 3 * n, lambda n: n + 1, lambda n: n + 32)


def check(exported: Exported) -> None:
    """Raises:
    ExportCheckError: An axis that should be dynamic has a fixed length in the file, or an
        attribute of a custom operator depends on a dynamic length.
    """
    for name, axis in exported.dynamic:
        _check_axis(exported, name, axis)
    attributes = _attributes(exported)
    if attributes and exported.dynamic:
        _check_attributes(exported, attributes)


def _check_axis(exported: Exported, name: str, axis: int) -> None:
    item = exported.graph_inputs.get(name)
    dims = [] if item is None else item.type.tensor_type.shape.dim
    if axis < len(dims) and dims[axis].HasField("dim_value"):
        length = dims[axis].dim_value
        places = [
            str(condition.place)
            for condition in (exported.recorded.conditions if exported.recorded else [])
            if condition.place is not None and length in map(_integer, condition.relation.atoms())
        ]
        where = f" It is built in at {'; at '.join(dict.fromkeys(places))}." if places else ""
        raise ExportCheckError(
            NAME,
            f"axis {axis} of {name!r} is to be dynamic, but has the length {length} of the example "
            f"in the exported model.{where} Compute with {name}.shape[{axis}] without int(), "
            "float() and branches on it.",
        )


def _integer(atom: Any) -> int | None:
    return int(atom) if getattr(atom, "is_Integer", False) else None


def _attributes(exported: Exported) -> dict[tuple[str, str], Attribute]:
    """Arguments of custom operators that torch made constants although they were lengths."""
    recorded = exported.recorded
    if recorded is None:
        return {}
    found = [*recorded.attributes, *(c.attribute for c in recorded.conditions if c.attribute)]
    return {(item.operator, item.name): item for item in found}


def _check_attributes(exported: Exported, attributes: Mapping[tuple[str, str], Attribute]) -> None:
    """Runs PyTorch at other lengths and tests whether these arguments change."""
    before = _called_with(exported, {})
    for rule in _LENGTHS:
        try:
            after = _called_with(exported, _changed(exported, rule))
        except Exception:  # PyTorch does not accept these lengths
            continue
        for key, item in attributes.items():
            if before.get(key) != after.get(key):
                raise ExportCheckError(
                    NAME, _advice.of_attribute(item.operator, item.name, item.place)
                )


def _changed(exported: Exported, rule: Any) -> dict[str, torch.Tensor]:
    lengths: dict[str, dict[int, int]] = {}
    tensors = {slot.name: exported.inputs.tensor(slot) for slot in exported.inputs.slots}
    for name, axis in exported.dynamic:
        low, high = exported.limits.get((name, axis), (1, 2**31))
        length = min(max(rule(tensors[name].shape[axis]), low), high)
        lengths.setdefault(name, {})[axis] = length
    return {name: resized(tensors[name], changed) for name, changed in lengths.items()}


def _called_with(exported: Exported, changes: Mapping[str, torch.Tensor]) -> dict[Any, list[Any]]:
    watch = _Arguments()
    exported.torch_run(changes, watch)
    return watch.found


class _Arguments(TorchFunctionMode):
    """The arguments of custom operators that are no tensors, by operator and argument."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[tuple[str, str], list[Any]] = {}

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        for key, value in constant_arguments(function, args, kwargs or {}):
            self.found.setdefault(key, []).append(value)
        return function(*args, **(kwargs or {}))
