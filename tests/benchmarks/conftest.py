"""Set-up for the tests of benchmarks."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture(scope="module", autouse=True)
def _imported_objects_are_not_collected() -> None:
    """Each measurement begins with a full garbage collection. Most of its time would be spent on
    the objects of torch and ONNX, which live until the process ends."""
    gc.collect()
    gc.freeze()
