"""What ops keep of inputs that do not change (`Op::prepare`), outside of sessions."""

from __future__ import annotations

from collections.abc import Callable

_forgetters: list[Callable[[], object]] = []  # of each binary whose ops may keep something


def register(forget: Callable[[], object]) -> None:
    """Says what frees the prepared inputs of one binary."""
    _forgetters.append(forget)


def forget_prepared() -> None:
    """Frees what ops have prepared of their inputs, such as packed weights, in PyTorch and NumPy.

    The next calls read the inputs again. This is needed after a write to a weight that PyTorch does
    not count and that changes few elements, because an op cannot notice it: docs/your_own_op.md,
    "Prepared weights", lists such writes. Sessions of ONNX Runtime are not affected, because their
    constants cannot change.

    Example:
        >>> weight = torch.nn.Parameter(torch.randn(64, 64))
        >>> weight.data[3, 5] = 0.0
        >>> myops.forget_prepared()
    """
    for forget in list(_forgetters):
        forget()
