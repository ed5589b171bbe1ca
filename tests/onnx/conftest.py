"""Fixtures of the tests of export."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest
import torch
from export_models import Enlarge


@pytest.fixture
def no_warnings() -> Iterator[None]:
    """A warning is an error, except for torch's general warnings about tracing and scripting."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=torch.jit.TracerWarning)
        for category in (DeprecationWarning, FutureWarning):  # of torch 2.13, of 2.15
            warnings.filterwarnings("ignore", ".*torch.jit.script", category=category)
        yield


@pytest.fixture
def no_warnings_at_all() -> Iterator[None]:
    """Every warning is an error, also those of torch, and that of a missing function body."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.fixture
def enlarge() -> Enlarge:
    return Enlarge()


@pytest.fixture
def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    """An example for `enlarge`: an image and a factor."""
    return torch.rand(2, 3, 8, 9), torch.tensor(2.5)
