"""Fixtures of the tests of export."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest
import torch


@pytest.fixture
def no_warnings() -> Iterator[None]:
    """A warning is an error, except for what torch says of tracing and scripting as such."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=torch.jit.TracerWarning)
        for category in (DeprecationWarning, FutureWarning):  # of torch 2.13, of 2.15
            warnings.filterwarnings("ignore", ".*torch.jit.script", category=category)
        yield
