"""An op in torch: what is registered for it, and how a call gets to its kernel."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from myops import _arguments, _libraries, _numpy_call
from myops._description import OpInfo
from myops._torch import autocast, autograd, batching, fast_call, refusals, written
from myops._torch.fake import FakeKernel, Inputs, Shape
from myops._torch.out_overloads import OutOverload, count_write, version
from myops._torch.private_names import (
    BelowAutograd,
    BelowAutogradAndCounts,
    dynamo_reads,
    forward_ad,
    functorch,
    grad_enabled,
    tracing,
)
from myops._torch.tangents import TangentLibrary
from myops._torch.writing import WritingOverload


class TorchOp:
    """One op as the public functions call it. Made by `Library.define`."""

    def __init__(
        self,
        info: OpInfo,
        library: Path | None,
        shape: Callable[[Inputs, dict[str, Any]], list[Shape]],
        save: Callable[..., None] | None,
        backward: Callable[..., tuple[torch.Tensor | None, ...]] | None,
        jvp: Callable[..., Any] | None,
        vmap: Callable[..., Any] | None,
        functional: str = "",
    ) -> None:
        """`functional`: for an op that writes into inputs, the name of the op without writes."""
        self.info = info
        self.package = ""  # that describes the op
        self.fake = FakeKernel(
            info, lambda inputs, attributes: shape(inputs, info.rounded(attributes))
        )
        save = autograd.rounding(info, save)
        self.packet = getattr(getattr(torch.ops, info.namespace), info.name)
        self._default = getattr(
            self.packet.default, "_op", self.packet.default
        )  # what its __call__ calls
        self.fast_call = fast_call.caller(info, library) or _never
        self._lists = info.has_values
        self._texts = any("string" in info.types[item.type] for item in info.inputs)
        self._autocast = autocast.Policy(info) if info.autocast else None
        self._variadic = info.is_variadic
        self._writes = info.writes
        self.__name__, self.__doc__ = info.name, info.doc
        self._optional = any(item.only_if for item in info.outputs)
        self.overloads = [self.packet.default]
        if info.has_values:
            self.overloads.append(self.packet.values)
        self.defaults = {item.name: item.default for item in info.attributes}
        self._input_names = frozenset(item.name for item in info.inputs)
        self._left_out = _left_out(info)
        self._requires = any(item.required for item in info.attributes)
        self._lists_of_texts = any(item.type == "strings" for item in info.attributes)
        gradient = autograd.checked(info, backward)
        self.function = autograd.function_of(self, save, gradient, jvp, vmap)
        self._eager = autograd.eager_function_of(self, save, gradient)
        self._written = [
            OutOverload(self, getattr(self.packet, written), getattr(self.packet, functional))
            for written, functional in (("out", "default"), ("values_out", "values"))
            if written in self.packet.overloads()
        ]
        written.let_scripts_call(self)
        if info.writes:
            space = getattr(torch.ops, info.namespace)
            pairs = zip(self.overloads, ("default", "values"), strict=False)
            self._writing = [
                WritingOverload(self, overload, getattr(getattr(space, functional), name))
                for overload, name in pairs
            ]
        if info.writes:
            return
        self._tangents = TangentLibrary(self)
        for overload in self.overloads:
            name = overload.name()
            torch.library.register_fake(name, self.fake.run, allow_override=True)
            torch.library.register_vmap(name, _make_vmap(self, vmap))
            torch.library.register_autograd(
                name,
                autograd.dispatched(info, gradient),
                setup_context=autograd.setup_of(save),
                lib=self._tangents,
            )
        if self._autocast is not None:
            self._autocast.register([*self.overloads, *(item.written for item in self._written)])

    def __copy__(self) -> TorchOp:
        """An op is the same in every copy of a module that has it."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> TorchOp:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickle has the name of the package and of the op."""
        if not self.package:
            raise TypeError(
                f"{self.info.name}: pickle: got the op of a prototype, expected what "
                "myops.prototype returned, or an op of a package"
            )
        return _libraries.restored, (self.package, self.info.name)

    def __prepare_scriptable__(self) -> Callable[..., Any]:
        """What torch.jit.script compiles in place of the op."""
        return written.function_of(self, self.info.doc, __name__)

    def __repr__(self) -> str:
        return f"<myops op {self.info.qualified}>"

    @property
    def __signature__(self) -> inspect.Signature:
        return _arguments.signature(self.info, bool(self._written))

    def __call__(self, *inputs: Any, out: torch.Tensor | None = None, **attributes: Any) -> Any:
        """Calls the op with its inputs, then its attributes, by position or name."""
        inputs, attributes = self._by_place(inputs, attributes)
        return self.call(inputs, attributes, out)

    def _by_place(
        self, inputs: tuple[Any, ...], attributes: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The call with inputs by position, and attributes by name, as all paths expect it."""
        named = attributes and not self._input_names.isdisjoint(attributes)
        if named or len(inputs) > len(self.info.inputs):
            inputs, attributes = _arguments.bound(self.info, inputs, attributes)
        if len(inputs) in self._left_out:  # a fast call needs all inputs
            inputs = (*inputs, *[None] * self._left_out[len(inputs)])
        return inputs, attributes

    def call(
        self,
        inputs: tuple[Any, ...],
        attributes: dict[str, Any],
        out: torch.Tensor | None = None,
    ) -> Any:
        """As `__call__`, without packing the arguments, which takes as long as a small kernel.

        torch.compile and torch.export see the dispatcher op. The TorchScript exporter needs the
        `torch.autograd.Function`, whose `symbolic` it reads. torch.func uses this Function too,
        because it is faster than the dispatcher's Python autograd; eager autograd uses a shorter
        one. Where no gradient is needed, or `use_gradient` says how it is computed, calls with
        plain tensors bypass the dispatcher (see fast_call.py), and all others enter it below
        its autograd key, which would call Python again.

        `out` takes the result, for ops with one output.
        """
        if dynamo_reads():
            result = self._dispatch(inputs, out, attributes)
        else:
            result = self.fast_call(inputs, attributes, out)
            if result is not NotImplemented:
                return result
            try:
                result = self._not_fast(inputs, attributes, out)
            except (RuntimeError, OverflowError) as error:
                if isinstance(error, NotImplementedError):
                    refusals.wrapped(self.info, inputs)
                refusals.unreadable(self.info, inputs, attributes)
                raise
        return self._given(result, inputs, attributes) if self._optional else result

    def _not_fast(
        self, inputs: tuple[Any, ...], attributes: dict[str, Any], out: torch.Tensor | None
    ) -> Any:
        """A call for which a fast call is not possible."""
        refusals.arguments(self.info, inputs, attributes)  # (a fast call makes the same checks)
        if self._writes or torch.compiler.is_compiling():
            return self._dispatch(inputs, out, attributes)
        if self._requires:
            refusals.missing(self.info, attributes)
        if self._autocast is not None and autocast.is_any_enabled():
            inputs = self._autocast.cast(inputs)
        traced = tracing() is not None
        exported = traced and torch.onnx.is_in_onnx_export()
        if traced and not exported:
            # A trace of the Function would contain a Python object, which torch.jit.save refuses.
            if self._lists_of_texts:
                attributes = refusals.in_trace(self.info, attributes)
            return self._dispatch(inputs, out, attributes)
        if (
            exported
            or functorch()
            or forward_ad._current_level >= 0
            or (grad_enabled() and _any_requires_grad((*self._flat(inputs), out)))
        ):
            if out is not None:
                return self._dispatch(inputs, out, attributes)
            values = {**self.defaults, **attributes}
            if len(values) != len(self.defaults):
                raise refusals.unknown(self.info, attributes)
            absent = (None,) * (len(self.info.inputs) - len(inputs))
            flat = self._flat((*inputs, *absent))
            if exported or functorch() or forward_ad._current_level >= 0:
                return self.function.apply(*flat, *values.values())
            return self._eager(*flat, values)
        if out is not None:
            before = version(out)
            with BelowAutogradAndCounts():
                self._dispatch(inputs, out, attributes)
            count_write(out, before)
            return out
        with BelowAutograd():
            if not self._lists and not self._texts:
                return self._default(*inputs, **attributes)
            return self._dispatch(inputs, None, attributes)

    def use_gradient(self, gradient: TorchOp, python: Callable[..., Any], summed: str = "") -> None:
        """Allows fast calls if inputs require gradients; see `fast_call.use_gradient`."""
        fast_call.use_gradient(self.info, self.fast_call, gradient.fast_call, python, summed)

    def _given(self, results: Any, inputs: Inputs, attributes: dict[str, Any]) -> tuple[Any, ...]:
        """The results with None for outputs that the call leaves out, instead of the empty tensors
        of the dispatcher's op."""
        wanted = self.info.present(inputs, attributes)
        # (By index, because torch.fx gives a Proxy, which has no length.)
        return tuple([results[place] if given else None for place, given in enumerate(wanted)])

    def _flat(self, inputs: Inputs) -> Inputs:
        return self.info.flat(inputs) if self._variadic else inputs

    def _dispatch(
        self, inputs: Inputs, out: torch.Tensor | None, attributes: dict[str, Any]
    ) -> Any:
        refusals.arguments(self.info, inputs, attributes)
        if self._texts:
            refusals.texts(self.info, inputs)
        if self._requires:
            refusals.missing(self.info, attributes)
        if out is None:
            return self.overload(inputs)(*inputs, **attributes)
        if not self._written:
            raise RuntimeError(
                f"{self.info.name}: out: got {type(out).__name__}, expected none: only ops in C++ "
                "with one output write into a given tensor"
            )
        if not isinstance(out, torch.Tensor):
            got = type(out).__name__
            raise TypeError(f"{self.info.name}: out: got {got}, expected a Tensor")
        overload = self.packet.values_out if self._has_lists(inputs) else self.packet.out
        overload(*inputs, **attributes, out=out)
        return out

    def numpy(self, *inputs: Any, threads: int | None = None, **attributes: Any) -> Any:
        """Runs the same kernel on NumPy arrays, for example on strings, of which PyTorch has no
        tensors.

        Args:
            inputs: One array for each input of the description, by position or name; None for one
                that is left out.
            threads: Most threads to use; default: MYOPS_NUM_THREADS or one per core. The attribute
                of this name, if the op has one.
            attributes: Values that differ from the defaults.

        Returns:
            An array, or a tuple of them; None for an op without outputs, which writes into the
            arrays that it is given. Strings are objects of type str.

        Raises:
            ValueError: The op refuses the call.
        """
        if threads is not None and "threads" in self.defaults:
            attributes["threads"], threads = threads, None
        inputs, attributes = _arguments.bound(self.info, inputs, attributes)
        padded = [*inputs, *[None] * (len(self.info.inputs) - len(inputs))]
        results = tuple(_numpy_call.call(self.info, padded, attributes, threads or 0))
        if not results:
            return None
        return results if len(results) > 1 else results[0]

    def overload(self, inputs: Inputs) -> Any:
        """The overload for these inputs: `values` if a list of numbers is among them."""
        return self.packet.values if self._has_lists(inputs) else self.packet.default

    def _has_lists(self, inputs: Inputs) -> bool:
        if not self._lists:
            return False
        given = inputs[: len(self.info.inputs) - 1] if self._variadic else inputs
        return any(isinstance(item, (list, tuple)) for item in given)


def _left_out(info: OpInfo) -> dict[int, int]:
    """How many inputs follow the given ones, by the number of these. Each gets None, so that the
    refusal of a call without a required input names this input: torch names the first one that is
    not given, which may be optional. The key of a random op is chosen elsewhere."""
    count = len(info.inputs)
    if info.random:
        needed = [place for place, item in enumerate(info.inputs) if not item.optional]
        count = needed[-1] + 1 if needed else 0
    return {given: count - given for given in range(count)}


def _never(inputs: Inputs, attributes: dict[str, Any], out: torch.Tensor | None) -> Any:
    """Takes the place of a fast call for ops that have none."""
    return NotImplemented


def _any_requires_grad(inputs: Inputs) -> bool:
    for item in inputs:  # noqa: SIM110  (any() with a generator takes as long as a small op)
        if isinstance(item, torch.Tensor) and item.requires_grad:
            return True
    return False


def _make_vmap(op: TorchOp, vmap: Callable[..., Any] | None) -> Callable[..., Any]:
    def rule(info: Any, in_dims: Any, *inputs: Any, **attributes: Any) -> Any:
        padded = [*inputs, *[None] * (len(op.info.inputs) - len(inputs))]
        dims = [*in_dims[: len(inputs)], *[None] * (len(padded) - len(inputs))]
        if op.info.is_variadic and dims[-1] is None:
            dims[-1] = [None] * len(padded[-1])
        called = batching.Dispatched(op)
        settings = op.info.complete(attributes)
        return batching.called(vmap or batching.unrolled, called, info, dims, padded, settings)

    return rule
