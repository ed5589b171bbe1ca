"""A profile function of ours in place of the one that the user has, which returns afterwards."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def profiled_by(function: Callable[[Any, str, Any], None]) -> Iterator[None]:
    """In this context, Python calls `function` as described at sys.setprofile.

    Raises:
        RuntimeError: A profiler in C is active that cannot be suspended, such as yappi.
    """
    previous: Any = sys.getprofile()
    in_c = previous is not None and not callable(previous)  # sys.setprofile cannot put it back
    if in_c and not hasattr(previous, "disable"):
        raise RuntimeError(
            f"the profiler {type(previous).__name__} is active and cannot be suspended, expected "
            "none or cProfile. Export without it"
        )
    if in_c:  # cProfile, up to Python 3.11
        previous.disable()
    sys.setprofile(function)
    try:
        yield
    finally:
        sys.setprofile(None if in_c else previous)
        if in_c:
            previous.enable()
