"""Seeds torch's global generators, without what `torch.manual_seed` does besides.

Before CUDA is in use, torch.manual_seed stores the seed for its start, with a stack trace. It would
replace the seed that the user's program gave, and the trace takes milliseconds.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


def seed(number: int) -> None:
    """Seeds the generator of the CPU, and those of CUDA if it is in use."""
    torch.default_generator.manual_seed(number)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(number)


@contextlib.contextmanager
def restored() -> Iterator[None]:
    """After this context, the generators continue as if nothing had drawn from them in it."""
    in_use = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with torch.random.fork_rng(devices=in_use):
        yield
