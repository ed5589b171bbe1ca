"""torch's dispatcher gets to know the ops of a library."""

from __future__ import annotations

import ctypes

import torch

from myops._libraries import Library
from myops._torch import torch_internals


def load(library: Library) -> None:
    """Lets torch's dispatcher know the ops of a library; once is enough.

    Raises:
        ImportError: The library for torch has not been built, or a description in it is wrong.
    """
    file = library.torch_library
    if file is None:
        return
    torch.ops.load_library(str(file))
    loaded = ctypes.CDLL(str(file))
    memory = torch_internals.owned_memory(torch.__version__, torch.version.git_version)
    loaded.myops_use_owned_memory(ctypes.c_void_p(memory))
    faults = loaded.myops_faults
    faults.restype = ctypes.c_char_p
    if text := faults().decode():
        raise ImportError(text)
