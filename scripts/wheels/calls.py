"""Calls of every kernel whose bits must not depend on processor, compiler, Python or torch.

    python scripts/wheels/calls.py            digest of each call's results, as JSON

The calls of an op are in op_calls/<op>.py. Needs the installed package, NumPy and ml_dtypes.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from call_values import Call  # noqa: E402


def calls() -> Iterator[Call]:
    for path in sorted((HERE / "op_calls").glob("*.py")):
        yield from importlib.import_module(f"op_calls.{path.stem}").calls()


def digests(module: Any, threads: int = 2) -> dict[str, str]:
    """Title -> SHA-256 of the results of a call, by a module `_numpy`."""
    ops = {op.describe()["name"]: op for op in module.OPS}
    found = {}
    for title, op, inputs, attributes in calls():
        digest = hashlib.sha256()
        for result in ops[op].call(inputs, attributes, threads):
            if result is not None:
                digest.update(f"{result.dtype}{result.shape}".encode())
                digest.update(np.ascontiguousarray(result).tobytes())
        found[title] = digest.hexdigest()[:16]
    return found


if __name__ == "__main__":
    print(json.dumps(digests(importlib.import_module("myops._numpy"))))
