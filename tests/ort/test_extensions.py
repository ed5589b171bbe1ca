"""The import of onnxruntime-extensions changes nothing for the processes that are started later."""

from __future__ import annotations

import os

import pytest
import warm

pytest.importorskip("onnxruntime_extensions")

PROGRAM = """
import os, subprocess, sys
import onnx
from myops.ort import pyops

pyops.extensions_library()
assert "onnxruntime_extensions" in sys.modules
code = "from google.protobuf.internal import api_implementation as a; print(a.Type())"
print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip())
"""


@pytest.mark.parametrize(
    ("variable", "expected"), [(None, "upb"), ("upb", "upb"), ("python", "python")]
)
def test_protobuf_of_child_processes(variable: str | None, expected: str) -> None:
    name = "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"
    others = {key: value for key, value in os.environ.items() if key != name}
    given = others if variable is None else {**others, name: variable}
    done = warm.run("-c", PROGRAM, env=given)
    assert done.stdout.split() == [expected], done.stderr
