"""`compare`: compares a PyTorch model and its ONNX file, layer by layer.

with_pytorch  `compare` itself; it needs torch, as do torch_side, pairing, outputs,
              first_mismatch, fresh and steps
torch_side    runs PyTorch and records the inputs and outputs of every submodule
ort_side      runs ONNX Runtime and fetches inner values
run_models    the models that it runs
pairing       finds the tensor for each value, by the path of the module
outputs       the same for the outputs of the model
metrics       computes their difference
propagation   follows differences along the data flow
ties          recognises differences that are only a choice among equal values
first_mismatch, fresh  find the first module that differs, and the node inside it
steps         the parts of `compare`
result        the report; terminal, html and reproduction show and write it

`myops.onnx.two_files` compares two files, with those of these modules that need no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from myops.onnx.comparison.result import Blame, FirstMismatch, Report, Value
    from myops.onnx.comparison.with_pytorch import compare

__all__ = ["Blame", "FirstMismatch", "Report", "Value", "compare"]


if not TYPE_CHECKING:  # otherwise a type checker would accept any name

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module 'myops.onnx.comparison' has no attribute {name!r}")
        home = "with_pytorch" if name == "compare" else "result"
        return getattr(importlib.import_module(f"myops.onnx.comparison.{home}"), name)
