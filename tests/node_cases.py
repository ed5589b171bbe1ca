"""The ONNX project's own node tests, for any number of ops in one process."""

from __future__ import annotations

import functools
import sys
from typing import Any

from onnx.backend.test.case import node


@functools.cache
def node_cases(op_type: str) -> list[Any]:
    """All cases of an op. The onnx package collects while its modules are imported, and only for
    the first op that is asked for, so they are imported anew each time."""
    for name in [name for name in sys.modules if name.startswith(node.__name__ + ".")]:
        del sys.modules[name]
    node._NodeTestCases.clear()
    return list(node.collect_testcases(op_type))
