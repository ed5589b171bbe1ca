"""Makes steps of torch's exporter that repeat in every call once for all cells of a matrix.

Every cell is one plain call of `torch.onnx.export`. In it, three steps have the same result for the
same model in all opsets with the same operators: the list of these operators, the capture by
`torch.export`, the decomposition of the program. They take most of the time. If a torch release has
them under other names, the matrix takes longer, but is the same.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from myops.onnx.matrix._captured_warnings import captured_warnings


@contextlib.contextmanager
def reused_work() -> Iterator[None]:
    """In this context, the results of the three steps are reused."""
    import torch

    try:
        from torch.onnx._internal.exporter import _core, _registration

        memory = _Memory(
            torch.export.export,
            _registration.ONNXRegistry.from_torchlib,
            _core._prepare_exported_program_for_export,
        )
    except (ImportError, AttributeError):
        yield
        return
    with (
        mock.patch.object(torch.export, "export", memory.capture),
        mock.patch.object(
            _registration.ONNXRegistry, "from_torchlib", staticmethod(memory.registry)
        ),
        mock.patch.object(_core, "_prepare_exported_program_for_export", memory.prepare),
    ):
        yield


class _Memory:
    def __init__(self, capture: Any, registry: Any, prepare: Any) -> None:
        self._make_capture, self._make_registry, self._make_prepare = capture, registry, prepare
        self._results: dict[Any, tuple[Any, Exception | None, list[str], Any]] = {}
        # Decomposing a program changes it, so each list of operators gets a separate copy.
        self._operators: frozenset[Any] = frozenset()

    def _once(self, key: Any, keep: Any, make: Callable[[], Any]) -> Any:
        """Returns or raises what `make` did the first time, and repeats its warnings. `keep` is
        kept alive, so that the ids in `key` stay valid."""
        if key not in self._results:
            result, error = None, None
            with captured_warnings() as said:
                try:
                    result = make()
                except Exception as raised:
                    error = raised
            self._results[key] = (result, error, said, keep)
        result, error, said, _ = self._results[key]
        for message in said:
            warnings.warn(message, stacklevel=2)
        if error is not None:
            raise error
        return result

    def registry(self, opset_version: int = 18) -> Any:
        key = ("registry", opset_version)
        made = self._once(key, None, lambda: self._make_registry(opset_version))
        result = copy.copy(made)
        result.functions = {target: list(known) for target, known in made.functions.items()}
        self._operators = frozenset(result.functions)
        return result

    def capture(self, mod: Any, args: Any, kwargs: Any = None, **options: Any) -> Any:
        from torch.utils import _pytree as pytree

        # By value: `myops.onnx.export` hands out copies of the examples.
        inputs, spec = pytree.tree_flatten((args, kwargs or {}))
        given = (tuple(map(_value, inputs)), repr(spec))
        asked = (options.get("strict"), repr(options.get("dynamic_shapes")))
        key = ("capture", id(mod), given, asked, self._operators)
        make = self._make_capture
        return self._once(key, (mod, inputs), lambda: make(mod, args, kwargs, **options))

    def prepare(self, program: Any, *, registry: Any) -> Any:
        key = ("prepare", id(program), frozenset(registry.functions))
        return self._once(key, program, lambda: self._make_prepare(program, registry=registry))


def _value(item: Any) -> Any:
    """The properties of an example input that determine the program."""
    import torch

    if type(item) is not torch.Tensor:
        simple = isinstance(item, (bool, int, float, str, type(None)))
        return (type(item), item) if simple else id(item)
    content = item.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    looks = (item.dtype, tuple(item.shape), item.stride(), item.device, item.requires_grad)
    return (*looks, hashlib.sha256(content).digest())
