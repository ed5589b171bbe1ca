"""Runs a PyTorch model and records the inputs and outputs of every submodule."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from myops._torch import module_state, seeds
from myops._torch.observing import ObservingMode
from myops.onnx.comparison.trees import copied, leaves, to_array
from myops.onnx.graph.torchscript_scopes import Stack


@dataclasses.dataclass(frozen=True, eq=False)
class Tensor:
    """A copy of a tensor at one moment.

    place: Its place among the inputs or outputs of a call, such as "[0]" or ".logits"; "" if it was
        the only one.
    """

    array: np.ndarray
    dtype: str  # bfloat16 arrays are kept as float32
    place: str = ""
    counterpart: int = 0  # the same number for the same tensor object
    number: bool = False  # a Python number, which exporters make a constant


@dataclasses.dataclass
class ModuleCall:
    """One call of a module; the first is that of the model itself, with the path ""."""

    path: str
    call: int
    stack: Stack
    kind: str  # class name
    inputs: list[Tensor]
    outputs: list[Tensor] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Recording:
    """A run of the model: its calls in order of entry."""

    calls: list[ModuleCall]
    inputs: dict[str, Tensor]  # of the model, by parameter of forward
    results: list[Tensor]  # what forward returns: tensors and Python numbers

    @property
    def stacks(self) -> list[Stack]:
        return [call.stack for call in self.calls if call.path]

    def find(self, path: str, call: int) -> ModuleCall | None:
        return next((c for c in self.calls if (c.path, c.call) == (path, call)), None)


def as_module(model: Any) -> torch.nn.Module:
    """The module to which hooks can be added: of an ExportedProgram, its unflattened module; of a
    compiled model, the original one."""
    if isinstance(model, torch.export.ExportedProgram):
        return torch.export.unflatten(model)
    if isinstance(model, torch.nn.Module):
        return getattr(model, "_orig_mod", model)
    raise ValueError(
        f"compare: model: got {type(model).__name__}, expected a torch.nn.Module or an "
        "ExportedProgram"
    )


def record(model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Recording:
    """Runs the model in eval mode, without gradients, on copies of the inputs.

    Afterwards hooks, the mode of every submodule, its state and random numbers are as before.
    """
    recorder = _Recorder()
    args, kwargs = copied((tuple(args), dict(kwargs)))
    inputs = _named_inputs(model, args, kwargs, recorder)
    with untouched(model), recorder.hooked(model), torch.no_grad():
        recorder.enter("", model, args, kwargs)
        returned = model(*args, **kwargs)
        recorder.leave(returned)
        results = _results(returned, recorder)  # here, because a result may be a buffer
    return Recording(recorder.calls, inputs, results)


def _results(returned: Any, recorder: _Recorder) -> list[Tensor]:
    found = []
    for place, leaf in leaves(returned):
        number = isinstance(leaf, (bool, int, float))
        if number or isinstance(leaf, torch.Tensor):
            kept = recorder.tensor(torch.tensor(leaf) if number else leaf, place)
            found.append(dataclasses.replace(kept, number=number))
    return found


def record_operators(
    model: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    path: str,
    call: int,
    limit: int = 1 << 30,
) -> list[tuple[str, np.ndarray]]:
    """The results of every ATen operator during one call of a module, in order.

    Args:
        path, call: The module and the number of the call.
        limit: Most bytes to keep; later results are dropped.
    """
    recorder = _Recorder(keep=False)
    kept: list[tuple[str, np.ndarray]] = []
    size = 0

    class Watch(ObservingMode):
        def observed(self, function: Any, args: Any, given: dict[str, Any]) -> Any:
            results = function(*args, **given)
            nonlocal size
            if size < limit and recorder.is_inside(path, call):
                for leaf in pytree.tree_leaves(results):
                    if isinstance(leaf, torch.Tensor):
                        kept.append((str(function), to_array(leaf)))
                        size += kept[-1][1].nbytes
            return results

    args, kwargs = copied((tuple(args), dict(kwargs)))
    with untouched(model), recorder.hooked(model), torch.no_grad(), Watch():
        recorder.enter("", model, args, kwargs)
        recorder.leave(model(*args, **kwargs))
    return kept


def arguments(
    model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], path: str, call: int
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call of a module, as Python values."""
    if not path:
        return copied((tuple(args), dict(kwargs)))
    found: list[Any] = []
    seen = 0

    def hook(module: Any, args: Any, kwargs: Any) -> None:
        nonlocal seen
        if seen == call:
            found.append(copied((args, kwargs)))
        seen += 1

    handle = model.get_submodule(path).register_forward_pre_hook(hook, with_kwargs=True)
    try:
        with untouched(model), torch.no_grad():
            args, kwargs = copied((tuple(args), dict(kwargs)))
            model(*args, **kwargs)
    finally:
        handle.remove()
    if not found:
        raise ValueError(f"module {path!r} was called {seen} times, not {call + 1}")
    return found[0]


class _Recorder:
    def __init__(self, keep: bool = True) -> None:
        self.calls: list[ModuleCall] = []
        self._keep = keep
        self._open: list[ModuleCall] = []
        self._counts: dict[str, int] = {}
        self._known: dict[tuple[int, int], tuple[Any, Tensor]] = {}

    @contextlib.contextmanager
    def hooked(self, model: torch.nn.Module) -> Iterator[None]:
        handles = []
        try:
            for path, module in model.named_modules():
                if module is model or isinstance(module, torch.jit.ScriptModule):
                    continue
                handles += [
                    module.register_forward_pre_hook(self._before(path), with_kwargs=True),
                    module.register_forward_hook(self._after),
                ]
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _before(self, path: str) -> Any:
        def hook(module: Any, args: Any, kwargs: Any) -> None:
            if not torch.compiler.is_compiling():  # torch.cond compiles in eager mode, too
                self.enter(path, module, args, kwargs)

        return hook

    def _after(self, module: Any, args: Any, outputs: Any) -> None:
        if not torch.compiler.is_compiling():
            self.leave(outputs)

    def enter(self, path: str, module: Any, args: Any, kwargs: Any) -> None:
        number = self._counts.get(path, 0)
        self._counts[path] = number + 1
        stack = (*(call.path for call in self._open if call.path), path) if path else ()
        inputs = self.tensors((args, kwargs) if kwargs else args)
        call = ModuleCall(path, number, stack, type(module).__name__, inputs)
        self.calls.append(call)
        self._open.append(call)

    def leave(self, outputs: Any) -> None:
        self._open.pop().outputs = self.tensors(outputs)

    def is_inside(self, path: str, call: int) -> bool:
        return any((item.path, item.call) == (path, call) for item in self._open)

    def tensors(self, tree: Any) -> list[Tensor]:
        """Copies of the tensors in arguments or results, each with its place."""
        if not self._keep:
            return []
        found = [(place, leaf) for place, leaf in leaves(tree) if isinstance(leaf, torch.Tensor)]
        single = len(found) == 1
        return [self.tensor(leaf, "" if single else place) for place, leaf in found]

    def tensor(self, tensor: torch.Tensor, place: str) -> Tensor:
        key = (id(tensor), tensor._version)
        if key not in self._known:
            name = str(tensor.dtype).removeprefix("torch.")
            kept = Tensor(to_array(tensor), name, place, len(self._known) + 1)
            self._known[key] = (tensor, kept)  # the tensor too, so that its id is not reused
        return dataclasses.replace(self._known[key][1], place=place)


@contextlib.contextmanager
def untouched(model: torch.nn.Module) -> Iterator[None]:
    """In this context, the model is in eval mode; afterwards modes, the state of the model and
    random numbers are as before."""
    training = [module for module in model.modules() if module.training]
    with module_state.restored(model), seeds.restored():
        for module in training:
            module.training = False
        try:
            yield
        finally:
            for module in training:
                module.training = True


def _named_inputs(
    model: torch.nn.Module, args: Any, kwargs: Any, recorder: _Recorder
) -> dict[str, Tensor]:
    """Tensors and numbers among the inputs, in the order of forward's parameters."""
    try:
        signature = inspect.signature(model.forward)
    except ValueError:  # functions written in C++ have no signature
        signature = inspect.Signature()
    if signature.parameters:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ValueError(
                f"compare: args: {error}; the model is called as forward{signature}"
            ) from error
        values = {}
        for name, value in bound.arguments.items():
            kind = bound.signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_KEYWORD:
                values.update(value)
            else:
                values[name] = value
    else:
        values = {**{f"args_{number}": value for number, value in enumerate(args)}, **kwargs}
    found: dict[str, Tensor] = {}
    for name, value in values.items():
        for number, (_, leaf) in enumerate(leaves(value)):
            title = name if leaf is value else f"{name}_{number}"
            number = isinstance(leaf, (bool, int, float))
            leaf = torch.tensor(leaf) if number else leaf
            if isinstance(leaf, torch.Tensor):
                kept = recorder.tensor(leaf, title)
                found[title] = dataclasses.replace(kept, number=number)
    return found
