"""Parses the functions of the exporter "dynamo" once in a process, and not in each export.

torch's exporter lists onnxscript's 500 functions for ATen operators in each call. onnxscript parses
the Python source of each of them for this, to return the name of its domain, which takes about a
second. The source of a function does not change, so that the first result can be used again.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any
from unittest import mock


@contextlib.contextmanager
def functions_parsed_once() -> Iterator[None]:
    """In this context, onnxscript parses no function for the second time. With an onnxscript that
    has these functions under other names, exports take longer, but are the same."""
    try:
        from onnxscript._internal import values

        described: Any = values.TracedOnnxFunction.function_ir  # a property
        own = described.fget
    except (ImportError, AttributeError):
        yield
        return
    with mock.patch.object(values.TracedOnnxFunction, "function_ir", property(_cached(own))):
        yield


@functools.cache
def _cached(own: Any) -> Any:
    """One cache for all exports."""
    return functools.cache(own)
