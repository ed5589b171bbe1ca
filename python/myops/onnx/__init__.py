"""ONNX: export of models with our ops, and tools for any model with custom operators.

    export                  a torch model to ONNX, with either exporter, checked
    register_symbolic       how both exporters write an operator that they do not know
    register_interpolate    lets both exporters write torch's interpolate as our node
    register_torchvision    lets both exporters write torchvision's deform_conv2d as our node
    translation_table       for torch.onnx.export(custom_translation_table=...)
    opset_matrix            whether each exporter's files are right, opset by opset
    compare                 a torch model and its ONNX file, layer by layer
    compare_files           two ONNX files, or one in two runtimes, value by value
    diff                    the differences between two files

    lower                   replaces our nodes by standard operators
    upgrade_ops             replaces standard Resize and DeformConv nodes by ours
    add_function_bodies     gives our nodes bodies that any ONNX Runtime runs
    remove_function_bodies
    inspect                 what is in a model
    extract                 a part of a model
    add_outputs             makes inner values outputs
    edit                    names, attributes, op types, dimensions
    simplify                fewer nodes, the same results
    quantize                int8, by ONNX Runtime's quantizer
    to_half                 float16 or bfloat16 where the loss of accuracy does not matter
    view                    Netron, with our documentation
    register_schemas        lets onnx.checker and onnx.shape_inference know our nodes
    reference_ops           lets onnx.reference.ReferenceEvaluator run them

Errors and warnings: ExportCheckError and ExportCheckWarning (a check of `export`), LoweringError,
MissingBodyWarning, GraphError, RedundantInputWarning, StaleShapeWarning, SimplifyError.

Only the functions about torch (`export`, `compare`, `opset_matrix`, `register_symbolic`,
`register_interpolate`, `register_torchvision`, `translation_table`) needs torch.

Example:
    >>> model = myops.onnx.export(myops.nn.MyAdd(), (torch.ones(3), torch.ones(3)), "add.onnx")
    >>> print(myops.onnx.inspect("add.onnx").op_counts)
    {'myops::MyAdd': 1}
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from myops.onnx.bodies import MissingBodyWarning, add_function_bodies, remove_function_bodies
    from myops.onnx.comparison import compare
    from myops.onnx.exporting.export import export
    from myops.onnx.graph.structure import GraphError
    from myops.onnx.guards import ExportCheckError, ExportCheckWarning
    from myops.onnx.lowering import LoweringError, lower
    from myops.onnx.matrix import opset_matrix
    from myops.onnx.precision.half import Half, to_half
    from myops.onnx.precision.int8 import Quantized, quantize
    from myops.onnx.reference import reference_ops
    from myops.onnx.schema import register_schemas
    from myops.onnx.surgery.editing import StaleShapeWarning, edit
    from myops.onnx.surgery.extraction import RedundantInputWarning, extract
    from myops.onnx.surgery.outputs import add_outputs
    from myops.onnx.surgery.slimming import Simplified, SimplifyError, simplify
    from myops.onnx.surgery.summary import Summary, inspect
    from myops.onnx.surgery.upgrading import Raised, Upgraded, raise_ops, upgrade_ops
    from myops.onnx.surgery.viewer import Viewer, view
    from myops.onnx.symbolics.interpolate import register_interpolate
    from myops.onnx.symbolics.register import register_symbolic
    from myops.onnx.symbolics.torchvision import register_torchvision
    from myops.onnx.symbolics.translation import translation_table
    from myops.onnx.two_files.comparing import compare_files
    from myops.onnx.two_files.diffing import diff

__all__ = [
    "ExportCheckError",
    "ExportCheckWarning",
    "GraphError",
    "Half",
    "LoweringError",
    "MissingBodyWarning",
    "Quantized",
    "Raised",
    "RedundantInputWarning",
    "Simplified",
    "SimplifyError",
    "StaleShapeWarning",
    "Summary",
    "Upgraded",
    "Viewer",
    "add_function_bodies",
    "add_outputs",
    "compare",
    "compare_files",
    "diff",
    "edit",
    "export",
    "extract",
    "inspect",
    "lower",
    "opset_matrix",
    "quantize",
    "raise_ops",
    "reference_ops",
    "register_interpolate",
    "register_schemas",
    "register_symbolic",
    "register_torchvision",
    "remove_function_bodies",
    "simplify",
    "to_half",
    "translation_table",
    "upgrade_ops",
    "view",
]

_HOMES = {
    "ExportCheckError": "guards",
    "ExportCheckWarning": "guards",
    "GraphError": "graph.structure",
    "Half": "precision.half",
    "LoweringError": "lowering",
    "MissingBodyWarning": "bodies",
    "Quantized": "precision.int8",
    "Raised": "surgery.upgrading",
    "RedundantInputWarning": "surgery.extraction",
    "Simplified": "surgery.slimming",
    "SimplifyError": "surgery.slimming",
    "StaleShapeWarning": "surgery.editing",
    "Summary": "surgery.summary",
    "Upgraded": "surgery.upgrading",
    "Viewer": "surgery.viewer",
    "add_function_bodies": "bodies",
    "add_outputs": "surgery.outputs",
    "compare": "comparison",
    "compare_files": "two_files.comparing",
    "diff": "two_files.diffing",
    "edit": "surgery.editing",
    "export": "exporting.export",
    "extract": "surgery.extraction",
    "inspect": "surgery.summary",
    "lower": "lowering",
    "opset_matrix": "matrix",
    "quantize": "precision.int8",
    "raise_ops": "surgery.upgrading",
    "reference_ops": "reference",
    "register_interpolate": "symbolics.interpolate",
    "register_schemas": "schema",
    "register_symbolic": "symbolics.register",
    "register_torchvision": "symbolics.torchvision",
    "remove_function_bodies": "bodies",
    "simplify": "surgery.slimming",
    "to_half": "precision.half",
    "translation_table": "symbolics.translation",
    "upgrade_ops": "surgery.upgrading",
    "view": "surgery.viewer",
}


if not TYPE_CHECKING:  # otherwise a type checker would accept any name

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'myops.onnx' has no attribute {name!r}")
        return getattr(importlib.import_module(f"myops.onnx.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "arrays", "lowering", "matrix", "module_paths"])
