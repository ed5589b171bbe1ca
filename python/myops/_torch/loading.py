"""Registers the ops of a library with torch's dispatcher."""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from myops import _prepared
from myops._op_library import Library
from myops._torch import torch_internals


def load(library: Library) -> None:
    """Registers the ops of a library with torch's dispatcher; once is enough.

    Raises:
        ImportError: The library for torch has not been built, or a description in it is wrong.
    """
    file = library.torch_library
    if file is None:
        return
    torch.ops.load_library(str(file))
    loaded = ctypes.CDLL(str(file))
    faults = loaded.myops_faults
    faults.restype = ctypes.c_char_p
    if text := faults().decode():
        raise ImportError(text)
    loaded.myops_prepares.restype = ctypes.c_bool
    if loaded.myops_prepares() and str(file) not in _preparing:
        _preparing.add(str(file))
        _let_prepare(loaded)


_preparing: set[str] = set()  # the libraries whose ops have prepared inputs


def _let_prepare(loaded: ctypes.CDLL) -> None:
    memory = torch_internals.owned_memory(torch.__version__, torch.version.git_version)
    loaded.myops_use_owned_memory(ctypes.c_void_p(memory))
    _prepared.register(loaded.myops_forget_prepared)

    def after_step(*arguments: Any) -> None:
        # Writes of optimizers with fused=True, and of some optimizers outside torch, are not
        # counted by autograd. Those of compiled optimizers are.
        if not torch.compiler.is_compiling():
            loaded.myops_forget_prepared()

    register_optimizer_step_post_hook(after_step)
