"""`compare`: a PyTorch model and its ONNX file, layer by layer; and what a comparison consists of.

with_pytorch  `compare` itself; it needs torch, as do torch_side, pairing,
              first_mismatch, fresh and steps
torch_side    runs PyTorch and keeps what every submodule got and gave
ort_side      runs ONNX Runtime and fetches inner values
pairing       which value is which tensor, by module path
metrics       how far apart they are
propagation   how differences pass on along the data flow
ties          differences that are only a choice among equals
first_mismatch, fresh  the first module that differs, and the node inside it
steps         the parts of `compare`
result        what comes out; terminal, html and reproduction show and write it

`myops.onnx.two_files` compares two files with what needs no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from myops.onnx.comparison.result import Blame, FirstMismatch, Report, Value
    from myops.onnx.comparison.with_pytorch import compare

__all__ = ["Blame", "FirstMismatch", "Report", "Value", "compare"]


if not TYPE_CHECKING:  # or any name would be right for a type checker

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module 'myops.onnx.comparison' has no attribute {name!r}")
        home = "with_pytorch" if name == "compare" else "result"
        return getattr(importlib.import_module(f"myops.onnx.comparison.{home}"), name)
