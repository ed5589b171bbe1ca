"""Exports after the first one compute again nothing of what does not change."""

from __future__ import annotations

import warm

PROGRAM = """
import onnx, torch, myops.onnx, torch.export
from onnxscript._internal import ast_utils, values
from torch._export import utils
from torch.export import decomp_utils, exported_program
from torch.onnx._internal.exporter import _schemas

calls = dict.fromkeys(["parsed", "signatures", "operators", "schemas", "kernels"], 0)


def counted(module, name, key):
    own = getattr(module, name)

    def call(*arguments, **settings):
        calls[key] += 1
        return own(*arguments, **settings)

    setattr(module, name, call)


counted(ast_utils, "get_src_and_ast", "parsed")
counted(_schemas, "op_signature_from_function", "signatures")
counted(utils, "_materialize_cpp_cia_ops", "operators")
counted(utils, "_check_valid_to_preserve", "schemas")
counted(torch._ops.OperatorBase, "py_impl", "kernels")
replaced = [(values.TracedOnnxFunction, "function_ir"), (_schemas, "op_signature_from_function"),
            (exported_program, "_collect_all_valid_cia_ops"),
            (decomp_utils, "_collect_all_valid_cia_ops"), (utils, "_materialize_cpp_cia_ops"),
            (utils, "_check_valid_to_preserve"), (torch._ops.OperatorBase, "py_impl")]
own = [vars(owner)[name] for owner, name in replaced]
files = []
for _ in range(2):
    calls.update(dict.fromkeys(calls, 0))
    model = myops.onnx.export(torch.nn.Softplus(), (torch.rand(3),), exporter="dynamo")
    files.append(model.SerializeToString(deterministic=True))
    print(calls["parsed"] > 100, calls["signatures"] > 100, calls["operators"] < 10,
          calls["schemas"] > 1000, calls["kernels"] < 100)
assert files[0] == files[1]
assert own == [vars(owner)[name] for owner, name in replaced]
"""


def test_exports_compute_the_same_things_once() -> None:
    done = warm.run("-c", PROGRAM)
    first, second = "True True True True True", "False False True False True"
    assert done.stdout.splitlines() == [first, second], done.stderr
