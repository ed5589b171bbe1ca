"""onnxruntime-extensions, imported without its change to the environment of child processes.

When it is imported it sets PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION to "python", which has no effect
in this process, where onnx has loaded protobuf before. But every process that this one starts would
read and write models with the implementation of protobuf in Python, which takes 10 to 50 times as
long.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnxruntime_extensions

_VARIABLE = "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"


def load() -> onnxruntime_extensions:
    """The package; raises ImportError if it is not installed."""
    with _unchanged():
        import onnxruntime_extensions
    return onnxruntime_extensions


@contextlib.contextmanager
def _unchanged() -> Iterator[None]:
    before = os.environ.get(_VARIABLE)
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(_VARIABLE, None)
        else:
            os.environ[_VARIABLE] = before
