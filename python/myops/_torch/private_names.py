"""The state of torch that every call needs to know.

Private names of torch only make a call faster: for each there is a public alternative.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch


def private(name: str) -> Any:
    """The member of torch._C with this name; None if there is none."""
    found: Any = torch._C
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _tracing_or_none() -> Any:
    return torch.jit.is_tracing() or None


class _ForwardLevel:
    """The level of forward mode if torch does not provide it: one less than the next level."""

    @property
    def _current_level(self) -> int:
        try:
            level: int = private("_enter_dual_level")()
        except RuntimeError:  # levels are not nested: there is one
            return 0
        private("_exit_dual_level")(level=level)
        return level - 1


def _below_functorch() -> bool:
    stack = private("_functorch.peek_interpreter_stack")
    return stack is None or stack() is not None


# Looked up once, because every call uses them.
BelowAutograd = private("_AutoDispatchBelowAutograd") or contextlib.nullcontext
BelowAutogradAndCounts = private("_AutoDispatchBelowADInplaceOrView") or contextlib.nullcontext
dynamo_reads = torch.compiler.is_dynamo_compiling
tracing = private("_get_tracing_state") or _tracing_or_none
functorch = private("_are_functorch_transforms_active") or _below_functorch
grad_enabled = torch.is_grad_enabled
forward_ad: Any = torch.autograd.forward_ad
if not hasattr(forward_ad, "_current_level"):
    forward_ad = _ForwardLevel()


@contextlib.contextmanager
def untraced() -> Iterator[None]:
    """In this context, torch.jit.trace records nothing; no effect if this torch lacks the names."""
    state, change = private("_get_tracing_state"), private("_set_tracing_state")
    before = None if state is None or change is None else state()
    if before is None:
        yield
        return
    change(None)
    try:
        yield
    finally:
        change(before)
