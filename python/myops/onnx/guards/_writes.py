"""Writes into a view of a tensor, which the TorchScript exporter loses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch

from myops._torch.observing import ObservingMode
from myops.onnx.exporting.recorded import SourceLine, user_place
from myops.onnx.guards._exported import Exported, runnable, unchanged

_ASSIGNMENT = re.compile(r"\]\s*=(?!=)")  # y[:, 0] = ..., which the exporter writes


class _Views(ObservingMode):
    """Finds the first line of the model that writes into a view.

    place: The line.
    """

    def __init__(self) -> None:
        super().__init__()
        self.place: SourceLine | None = None

    def observed(self, function: Any, args: Any, given: dict[str, Any]) -> Any:
        if self.place is None and function._schema.is_mutable:
            declared = function._schema.arguments
            values = {item.name: value for item, value in zip(declared, args, strict=False)} | given
            for item in declared:
                value = values.get(item.name)
                written = item.alias_info is not None and item.alias_info.is_write
                if written and isinstance(value, torch.Tensor) and value._is_view():
                    place = user_place()
                    if place is not None and not _ASSIGNMENT.search(place.code):
                        self.place = place
        return function(*args, **given)


def lost(exported: Exported, changes: Mapping[str, torch.Tensor]) -> str:
    """Where forward writes into a view, and what to write instead; empty if it does not, or if the
    exporter keeps such writes."""
    if exported.recorded is None or not exported.recorded.origins:  # not from a trace
        return ""
    args, kwargs = exported.inputs.call(changes)
    views = _Views()
    try:
        with torch.no_grad(), unchanged(exported.model), views:
            runnable(exported.model)(*args, **kwargs)
    except Exception:  # an operator that refuses such modes; the difference is told anyway
        return ""
    if views.place is None:
        return ""
    return (
        f"The TorchScript exporter loses what forward writes into a view, at {views.place}. Assign "
        "to a part of the tensor itself, y[:, 0] = 2 * y[:, 0] instead of y[:, 0].mul_(2); or make "
        'a new tensor, with torch.where or torch.cat; or take exporter="dynamo".'
    )
