"""Exports after the first one parse none of onnxscript's functions again."""

from __future__ import annotations

import warm

PROGRAM = """
import onnx, torch, myops.onnx
from onnxscript._internal import ast_utils, values

parse, parsed = ast_utils.get_src_and_ast, []
ast_utils.get_src_and_ast = lambda function: parsed.append(function) or parse(function)
own = values.TracedOnnxFunction.function_ir
files = []
for _ in range(2):
    parsed.clear()
    model = myops.onnx.export(torch.nn.Softplus(), (torch.rand(3),), exporter="dynamo")
    files.append(model.SerializeToString(deterministic=True))
    print(len(parsed) > 100, files[0] == files[-1], values.TracedOnnxFunction.function_ir is own)
"""


def test_functions_are_parsed_in_the_first_export_only() -> None:
    done = warm.run("-c", PROGRAM)
    assert done.stdout.splitlines() == ["True True True", "False True True"], done.stderr
