"""The ONNX project's own node tests, for any number of ops in one process."""

from __future__ import annotations

import functools
import importlib
import sys
from typing import Any

from onnx.backend.test.case import node


@functools.cache
def node_cases(op_type: str) -> list[Any]:
    """All cases of an op. The onnx package collects the cases of each module that is imported; only
    the module of the op is imported here, because all of them take half a minute."""
    path = f"{node.__name__}.{op_type.lower()}"
    sys.modules.pop(path, None)
    node._NodeTestCases.clear()
    node._TargetOpType = op_type
    importlib.import_module(path)
    found = list(node._NodeTestCases)
    node._NodeTestCases.clear()
    return found
