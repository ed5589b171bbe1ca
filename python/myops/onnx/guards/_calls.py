"""Which custom operators a model calls in PyTorch."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from myops._torch.observing import ObservingMode
from myops.onnx.guards._profiler import profiled_by

# torch's own namespaces.
TORCHS = {
    "aten", "prim", "prims", "prim_data", "quantized", "quantized_decomposed", "_quantized",
    "onnx", "onnx_symbolic", "inductor", "rngprims", "debugprims", "profiler", "mkldnn", "mkl",
    "mkldnn_prepacked", "xnnpack", "sparse", "sparse_quantized", "c10d", "_c10d_functional",
    "c10d_functional", "symm_mem", "fsdp", "torch_attn", "higher_order", "export", "_test",
    "static_runtime", "tensorexpr", "cuda", "streams", "bucketing", "vulkan_prepack", "metal",
}  # fmt: skip
# None where apply is a function in C, from torch 2.14 on.
_APPLY_CODE: Any = getattr(
    getattr(torch.autograd.Function.apply, "__func__", None), "__code__", None
)


class CallRecorder:
    """A context that records the custom operators that are called, and by which Functions.

    operators: Qualified names, without the overload.
    functions: For each torch.autograd.Function with a `symbolic`, the arguments of its first call
        and the operators that were called inside.
    """

    def __init__(self) -> None:
        self.operators: set[str] = set()
        self.functions: dict[type, tuple[Any, set[str]]] = {}
        self.made_of: dict[str, set[str]] = {}  # an operator: all that its implementation calls
        self.callers: dict[str, set[frozenset[str]]] = {}  # for each call those around it
        self.floats: set[str] = set()  # dtypes of more than one number that operators give
        self._callers: list[str] = []
        self._unread: dict[int, tuple[torch.Tensor, str]] = {}
        self._inside: list[type] = []
        self._modes = (_Functions(self), _Dispatched(self))

    def __enter__(self) -> CallRecorder:
        self._profiler = profiled_by(self._profile)
        self._profiler.__enter__()
        for mode in self._modes:
            mode.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        for mode in reversed(self._modes):
            mode.__exit__(*error)
        self._profiler.__exit__(None, None, None)
        if error[0] is not None:
            # torch.cond and similar ones compile their code, fail under a dispatch mode, and would
            # then never be compiled again.
            torch._dynamo.reset()

    def _profile(self, frame: Any, event: str, argument: Any) -> None:
        # The method cannot be replaced, because a name like `my_add = MyAdd.apply` refers to it.
        if _APPLY_CODE is None and event == "call":
            for function in self._inside:
                if frame.f_code is getattr(_forward(function), "__code__", None):
                    self._note(function, _arguments(function, frame))
            return
        function = _applied(frame, event, argument)
        if function is None:
            return
        if event in ("call", "c_call"):
            self._inside.append(function)
            if _APPLY_CODE is not None:
                self._note(function, frame.f_locals.get("args", ()))
        elif self._inside:
            self._inside.pop()

    def _note(self, function: Any, arguments: tuple[Any, ...]) -> None:
        if hasattr(function, "symbolic") and function not in self.functions:
            self.functions[function] = (arguments, set())

    def called(self, name: str, call: Callable[[], Any]) -> Any:
        """Calls an operator and records the operators that it calls."""
        name = name.partition(".")[0]
        self.seen(name)
        self._callers.append(name)
        try:
            return call()
        finally:
            self._callers.pop()

    def seen(self, name: str) -> None:
        name = name.partition(".")[0]
        for caller in self._callers:
            if caller != name:
                self.made_of.setdefault(caller, set()).add(name)
        if name.partition("::")[0] not in TORCHS:
            self.operators.add(name)
            outer = frozenset(self._callers) - {name}
            self.callers.setdefault(name, set()).add(outer)
            for function in self._inside:
                if function in self.functions:
                    self.functions[function][1].add(name)

    def ran(self, name: str, arguments: Any, result: Any) -> None:
        """Records results that nothing has read yet, because an exporter may drop these."""
        for leaf in pytree.tree_leaves(arguments):
            self._unread.pop(id(leaf), None)
        for leaf in pytree.tree_leaves(result):
            if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() and leaf.numel() > 1:
                self.floats.add(str(leaf.dtype).removeprefix("torch."))
        if name.partition("::")[0] not in TORCHS:
            for leaf in pytree.tree_leaves(result):
                if isinstance(leaf, torch.Tensor):
                    self._unread[id(leaf)] = (leaf, name.partition(".")[0])

    def returned(self, outputs: Any) -> None:
        """Marks the results of the model as read, by its caller."""
        for leaf in pytree.tree_leaves(outputs):
            self._unread.pop(id(leaf), None)

    @property
    def unread(self) -> set[str]:
        """The operators whose results neither another operator nor the caller reads."""
        return {name for _, name in self._unread.values()}


def _applied(frame: Any, event: str, argument: Any) -> Any:
    """The Function whose `apply` begins or ends; None if another call begins or ends."""
    if _APPLY_CODE is not None:
        ours = frame.f_code is _APPLY_CODE and event in ("call", "return")
        return frame.f_locals.get("cls") if ours else None
    if event not in ("c_call", "c_return", "c_exception"):
        return None
    function = getattr(argument, "__self__", None)
    applies = isinstance(function, type) and issubclass(function, torch.autograd.Function)
    return function if applies and getattr(argument, "__name__", "") == "apply" else None


def _forward(function: Any) -> Any:
    """`forward` without its wrappers."""
    forward = inspect.unwrap(function.forward)
    while isinstance(forward, functools.partial):
        forward = inspect.unwrap(forward.func)
    return forward


def _arguments(function: Any, frame: Any) -> tuple[Any, ...]:
    """The arguments of `apply`, from the frame of `forward`."""
    code, defaults = frame.f_code, _forward(function).__defaults__ or ()
    values = [frame.f_locals[name] for name in code.co_varnames[: code.co_argcount]]
    if code.co_flags & inspect.CO_VARARGS:
        values += frame.f_locals[code.co_varnames[code.co_argcount + code.co_kwonlyargcount]]
    else:  # trailing ones that were left out
        while defaults and values[-1] is defaults[-1]:
            values, defaults = values[:-1], defaults[:-1]
    takes_context = function.setup_context is torch.autograd.Function.setup_context
    return tuple(values[1:] if takes_context else values)


class _Functions(TorchFunctionMode):
    """Observes operators that are composed of others, which the dispatcher decomposes."""

    def __init__(self, calls: CallRecorder) -> None:
        super().__init__()
        self._calls = calls

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        call = functools.partial(function, *args, **(kwargs or {}))
        if isinstance(function, torch._ops.OpOverload):
            return self._calls.called(function.name(), call)
        if isinstance(function, torch._ops.OpOverloadPacket):
            return self._calls.called(function._qualified_op_name, call)
        return call()


class _Dispatched(ObservingMode):
    """Observes operators that are called from C++ and from scripted programs."""

    def __init__(self, calls: CallRecorder) -> None:
        super().__init__()
        self._calls = calls

    def observed(self, function: Any, args: Any, given: dict[str, Any]) -> Any:
        result = function(*args, **given)
        self._calls.seen(function.name())
        self._calls.ran(function.name(), (args, given), result)
        return result

    def returned(self, arguments: Any, result: Any) -> None:
        self._calls.ran("higher_order::", arguments, result)


class Reads(ObservingMode):
    """A context that records whether a tensor is read into Python."""

    def __init__(self, tensor: torch.Tensor) -> None:
        super().__init__()
        self.tensor = tensor
        self.found = False

    def observed(self, function: Any, args: Any, given: dict[str, Any]) -> Any:
        scalar = function is torch.ops.aten._local_scalar_dense.default
        self.found = self.found or (scalar and args[0] is self.tensor)
        return function(*args, **given)
