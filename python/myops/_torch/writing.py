"""Ops that write into their inputs, which behave as torch expects of such ops.

The kernel in C++ refuses tensors that require a gradient, and increments the versions of tensors
that it writes to. It gets plain tensors only; the kernels here support wrapper tensors,
transformations and compilers; see also out_overloads.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import _C, Tensor

from myops._torch.out_overloads import PRIVATE, count_write, version
from myops._torch.private_names import forward_ad, private

if TYPE_CHECKING:
    from myops._torch.call import TorchOp


class WritingOverload:
    """The kernels in Python of one overload of an op that writes.

    If torch lacks a private name, its defaults for such ops are used: torch.compile wraps the op,
    and an exported program has no ONNX node for it.
    """

    def __init__(self, op: TorchOp, overload: Any, functional: Any) -> None:
        """`functional`: the overload of the op without writes."""
        self.op = op
        self.overload = overload
        self.functional = functional
        self.written = [n for n, item in enumerate(op.info.inputs) if item.written]
        torch.library.register_fake(overload.name(), op.fake.run, allow_override=True)
        torch.library.register_vmap(overload.name(), self._batched)
        if any(private(item) is None for item in PRIVATE):
            return
        self._library = torch.library.Library(op.info.namespace, "FRAGMENT")
        title = overload.name().partition("::")[2]
        self._library.impl(title, self._autograd, "Autograd", with_keyset=True)
        self._library.impl(title, self._count, "ADInplaceOrView", with_keyset=True)
        self._library.impl(title, self._functionalize, "Functionalize")
        self._library.impl(title, self._negated, "Negative", with_keyset=True)

    def _autograd(self, keys: Any, *inputs: Any, **attributes: Any) -> Any:
        """Refuses tensors that require a gradient, because it would be that of the overwritten
        values."""
        for name, item in self._tensors(inputs):
            recorded = torch.is_grad_enabled() and item.requires_grad
            if not recorded and forward_ad._current_level >= 0:
                recorded = torch.autograd.forward_ad.unpack_dual(item).tangent is not None
            if recorded:
                self._refuse(
                    name, "a tensor that requires grad",
                    "none: the op writes into an input; make the call in no_grad mode, or call "
                    f"{self.op.info.name.removesuffix('_')}, which writes nothing",
                )  # fmt: skip
        if torch.onnx.is_in_onnx_export() and not torch.compiler.is_compiling():
            self._refuse(
                self.op.info.inputs[self.written[0]].name,
                "a tensor in an export by the TorchScript exporter, which loses what is written",
                f"none there; call {self.op.info.name.removesuffix('_')}, or take the exporter on "
                "torch.export",
            )
        with _C._AutoDispatchBelowAutograd():
            return self._count(keys, *inputs, **attributes)

    def _count(self, keys: Any, *inputs: Any, **attributes: Any) -> Any:
        """Increments the versions of written tensors if the kernel did not get these tensors."""
        before = [version(inputs[place]) for place in self.written]
        result = self.overload.redispatch(
            keys & _C._after_ADInplaceOrView_keyset, *inputs, **attributes
        )
        for place, number in zip(self.written, before, strict=True):
            count_write(inputs[place], number)
        return result

    def _functionalize(self, *inputs: Any, **attributes: Any) -> Any:
        """For programs without writes, which compilers and exporters read: computes, then
        copies."""
        results = self.functional(*inputs, **attributes)
        results = results if isinstance(results, tuple) else (results,)
        for place, result in zip(self.written, results, strict=False):
            inputs[place].copy_(result)
        others = results[len(self.written) :]
        if not others:
            return None
        return others if len(others) > 1 else others[0]

    def _negated(self, keys: Any, *inputs: Any, **attributes: Any) -> Any:
        """For tensors that torch negates lazily."""
        plain = [item.resolve_neg() if isinstance(item, Tensor) else item for item in inputs]
        below = _C._dispatch_keyset_full_after(_C.DispatchKey.Negative)
        result = self.overload.redispatch(keys & below, *plain, **attributes)
        for place in self.written:
            if plain[place] is not inputs[place]:
                inputs[place].copy_(plain[place])
        return result

    def _batched(self, *_: Any, **__: Any) -> Any:
        self._refuse(
            self.op.info.inputs[self.written[0]].name,
            "a batch of torch.func.vmap",
            f"none: the op writes into an input; call {self.op.info.name.removesuffix('_')}, "
            "which writes nothing",
        )

    def _tensors(self, inputs: Any) -> list[tuple[str, Tensor]]:
        flat = self.op.info.flat(inputs)
        names = [item.name for item in self.op.info.expanded(len(flat)).inputs]
        pairs = zip(names, flat, strict=False)
        return [(name, item) for name, item in pairs if isinstance(item, Tensor)]

    def _refuse(self, name: str, got: str, expected: str) -> None:
        raise RuntimeError(f"{self.op.info.name}: {name}: got {got}, expected {expected}")
