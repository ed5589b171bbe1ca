"""ONNX: export of models with our ops, function bodies, lowering to standard operators.

    export                  a torch model to ONNX, with either exporter
    lower                   our nodes in standard operators
    add_function_bodies     our nodes, each with a body that any ONNX Runtime runs
    remove_function_bodies
    register_torchvision    lets both exporters write torchvision's deform_conv2d as our node
    register_schemas        lets onnx.checker and onnx.shape_inference know our nodes
    translation_table       for torch.onnx.export(custom_translation_table=...)
    LoweringError           a node that an opset cannot express
    MissingBodyWarning      a node that stays without a body

Only `export`, `register_torchvision` and `translation_table` need torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from myops.onnx._export import export
    from myops.onnx.bodies import MissingBodyWarning, add_function_bodies, remove_function_bodies
    from myops.onnx.lowering import LoweringError, lower
    from myops.onnx.schema import register_schemas
    from myops.onnx.torchvision import register_torchvision
    from myops.onnx.translation import translation_table

__all__ = [
    "LoweringError",
    "MissingBodyWarning",
    "add_function_bodies",
    "export",
    "lower",
    "register_schemas",
    "register_torchvision",
    "remove_function_bodies",
    "translation_table",
]

_HOMES = {
    "LoweringError": "lowering",
    "MissingBodyWarning": "bodies",
    "add_function_bodies": "bodies",
    "export": "_export",
    "lower": "lowering",
    "register_schemas": "schema",
    "register_torchvision": "torchvision",
    "remove_function_bodies": "bodies",
    "translation_table": "translation",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'myops.onnx' has no attribute {name!r}")
    return getattr(importlib.import_module(f"myops.onnx.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
