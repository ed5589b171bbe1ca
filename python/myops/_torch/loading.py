"""torch's dispatcher gets to know the ops of a library."""

from __future__ import annotations

import ctypes

import torch

from myops._libraries import Library


def load(library: Library) -> None:
    """Lets torch's dispatcher know the ops of a library; once is enough.

    Raises:
        ImportError: The library for torch has not been built, or a description in it is wrong.
    """
    file = library.torch_library
    if file is None:
        return
    torch.ops.load_library(str(file))
    faults = ctypes.CDLL(str(file)).myops_faults
    faults.restype = ctypes.c_char_p
    if text := faults().decode():
        raise ImportError(text)
