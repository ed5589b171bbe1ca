"""Overloads with `out=`, which behave like those of torch's own functions.

The kernel in C++ refuses tensors that require a gradient and increments the version of `out`: see
out_argument.h of the torch adapter. It gets plain tensors only; the kernels here do the same for
wrapper tensors, transformations and compilers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import _C, Tensor

from myops._torch.layouts import CHANNELS_LAST, is_channels_last
from myops._torch.private_names import forward_ad, private

if TYPE_CHECKING:
    from myops._torch.call import TorchOp

# Private names of torch. If one is missing, torch's default for such ops is used: plain calls are
# the same, but not calls with negated tensors and functionalised programs.
PRIVATE = (
    "_AutoDispatchBelowAutograd",
    "_after_ADInplaceOrView_keyset",
    "_dispatch_keyset_full_after",
    "DispatchKey",
)
_GRADIENT = "none in a call with out=; make the call without out, or in no_grad mode"


def version(out: Any) -> int | None:
    """The version of a tensor, which counts writes; None if torch does not count them."""
    if not isinstance(out, Tensor) or out.is_inference():
        return None
    return out._version


def count_write(out: Tensor, before: int | None) -> None:
    """Increments a tensor's version if the kernel did not: it only increments that of the tensor
    inside a wrapper, and a fake kernel increments none."""
    if before is not None and out._version == before:
        torch.autograd.graph.increment_version(out)


def _same_places(one: Tensor, other: Tensor) -> bool:
    """Whether their elements have the same strides. Axes of length 1 fit all strides."""
    places = zip(one.shape, one.stride(), other.stride(), strict=True)
    return all(length == 1 or left == right for length, left, right in places)


class OutOverload:
    """The kernels in Python of one overload that writes into `out`."""

    def __init__(self, op: TorchOp, written: Any, functional: Any) -> None:
        """`functional`: the overload with the same inputs that allocates the result."""
        self.op = op
        self.written = written
        self.functional = functional
        name = written.name()
        torch.library.register_fake(name, self._fake, allow_override=True)
        if any(private(item) is None for item in PRIVATE):
            return
        self._library = torch.library.Library(op.info.namespace, "FRAGMENT")
        title = name.partition("::")[2]
        self._library.impl(title, self._autograd, "Autograd", with_keyset=True)
        self._library.impl(title, self._count, "ADInplaceOrView", with_keyset=True)
        self._library.impl(title, self._functionalize, "Functionalize")
        self._library.impl(title, self._negated, "Negative", with_keyset=True)

    def _autograd(self, keys: Any, *inputs: Any, out: Tensor, **attributes: Any) -> None:
        """Refuses tensors that require a gradient."""
        named = [*zip((item.name for item in self.op.info.inputs), inputs, strict=False)]
        for name, item in (*named, ("out", out)):
            if isinstance(item, Tensor):
                self._refuse_recorded(name, item)
        if torch.onnx.is_in_onnx_export() and not torch.compiler.is_compiling():
            self._refuse(
                "a tensor in an export by the TorchScript exporter, which loses what is written",
                "none there; make the call without out, or take the exporter on torch.export",
            )
        with _C._AutoDispatchBelowAutograd():
            self._count(keys, *inputs, out=out, **attributes)

    def _refuse_recorded(self, name: str, item: Tensor) -> None:
        if torch.is_grad_enabled() and item.requires_grad:
            self._refuse("a tensor that requires grad", _GRADIENT, name)
        if forward_ad._current_level >= 0 and (
            torch.autograd.forward_ad.unpack_dual(item).tangent is not None
        ):
            self._refuse("a tensor with a tangent", _GRADIENT, name)

    def _count(self, keys: Any, *inputs: Any, out: Tensor, **attributes: Any) -> None:
        """Increments the version of `out`."""
        before = version(out)
        below = _C._after_ADInplaceOrView_keyset
        self.written.redispatch(keys & below, *inputs, out=out, **attributes)
        count_write(out, before)

    def _functionalize(self, *inputs: Any, out: Tensor, **attributes: Any) -> None:
        """For programs without writes, which compilers and exporters read: computes, then copies.

        torch's default for such ops wraps them in an operator that has an argument `mode` of its
        own, and no translation to ONNX.
        """
        result = self.functional(*inputs, **attributes)
        self._accept(out, result)
        out.copy_(result)

    def _negated(self, keys: Any, *inputs: Any, out: Tensor, **attributes: Any) -> None:
        """For tensors that torch negates lazily: torch's default expects that `out` is returned."""
        resolved = [item.resolve_neg() if isinstance(item, Tensor) else item for item in inputs]
        plain = torch.empty_like(out) if out.is_neg() else out
        below = _C._dispatch_keyset_full_after(_C.DispatchKey.Negative)
        self.written.redispatch(keys & below, *resolved, out=plain, **attributes)
        if plain is not out:
            out.copy_(plain)

    def _fake(self, *inputs: Any, out: Tensor, **attributes: Any) -> None:
        """Checks `out` as the kernel does if all lengths are known; otherwise the kernel checks
        it."""
        want = self.op.fake.known_result(inputs, attributes)
        if want is not None:
            self._accept(out, want)

    def _accept(self, out: Tensor, want: Tensor) -> None:
        """Refuses what accept_output (core/out_argument.h) refuses; lengths may be symbolic."""
        if out.device != want.device:
            self._refuse(f"a tensor on {out.device}", f"one on {want.device}")
        if out.dtype != want.dtype:
            names = [str(item.dtype).removeprefix("torch.") for item in (out, want)]
            self._refuse(f"dtype {names[0]}", f"{names[1]}, that of the result")
        wrong = f"got shape {list(out.shape)}, expected shape {list(want.shape)}"
        torch._check(out.dim() == want.dim(), lambda: f"{self.op.info.name}: out: {wrong}")
        for got, wanted in zip(out.shape, want.shape, strict=True):
            torch._check(got == wanted, lambda: f"{self.op.info.name}: out: {wrong}")
        if self.op.info.outputs[0].elementwise and not want.is_contiguous():
            if not out.is_contiguous() and not _same_places(out, want):
                words = f"contiguous memory, or strides {list(want.stride())}"
                self._refuse(f"strides {list(out.stride())}", words)
            return
        follows = is_channels_last(want, f"{self.op.info.name}: out")
        layout = CHANNELS_LAST[want.dim()] if follows else torch.contiguous_format
        if not out.is_contiguous(memory_format=layout):
            words = "channels_last memory, as that of the input" if follows else "contiguous memory"
            self._refuse(f"strides {list(out.stride())}", words)

    def _refuse(self, got: str, expected: str, name: str = "out") -> NoReturn:
        raise RuntimeError(f"{self.op.info.name}: {name}: got {got}, expected {expected}")
