"""Runs a model over many rows: folders of pictures, arrays, Parquet, buckets. Imports no torch.

    run(model, source, output)   an output for each row, bit-identical with any number of workers
    Result                       its result

The command is `myops run`; docs/batch.md has the rules.

Example:
    >>> np.save("images.npy", np.ones((5, 3, 8, 8), np.float32))
    >>> scales = {"scales": [1, 1, 2, 2]}
    >>> myops.batch.run("upscale.onnx", "images.npy", "out", constants=scales).done
    5
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from myops.batch._result import Result
    from myops.batch._run import run

_FILES = {"Result": "_result", "run": "_run"}
__all__ = ["Result", "run"]

if not TYPE_CHECKING:  # otherwise a type checker would accept any name

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module 'myops.batch' has no attribute {name!r}")
        return getattr(importlib.import_module(f"myops.batch.{_FILES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
