"""Numbers that a trace reads into Python: which of them change, and which branches go both ways.

A trace keeps one side of each branch. Comparisons with PyTorch show that it is the wrong one only
at lengths and values at which the model takes the other; where none were found, a warning names
the branch.
"""

from __future__ import annotations

import ast
import functools
import linecache
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from myops.onnx.exporting.inputs import Inputs
from myops.onnx.exporting.recorded import Read, Recorded, SourceLine
from myops.onnx.exporting.trace_reads import TraceReads

_SECONDS = 5.0  # for all observed runs together
_RUNS = 3  # in which what is read has to change; otherwise it is taken for fixed
_SAYING = ("warn", "warn_once", "warning", "print", "info", "debug", "log")


class TracedReads:
    """Observes what the model reads at other inputs, by tracing it again.

    unchanged: A context in which a run does not change the model.
    """

    def __init__(
        self, model: Any, inputs: Inputs, recorded: Recorded | None, unchanged: Callable[[Any], Any]
    ) -> None:
        self._model, self._inputs, self._unchanged = model, inputs, unchanged
        self.all: Mapping[Any, Read] = recorded.reads if recorded is not None else {}
        self._left = _SECONDS
        self._runs = {True: 0, False: 0}  # at other lengths, with other values only

    def changing(self, changes: Mapping[str, torch.Tensor]) -> list[Read]:
        """The reads that give another number with other inputs, or that are new; all, if that
        cannot be observed."""
        example, other = self._observed({}), self._observed(changes)
        if example is None or other is None:
            return list(self.all.values())
        return [
            read
            for key, read in self.all.items()
            if key not in example or key not in other or example[key].sources != other[key].sources
        ]

    def compared(self, changes: Mapping[str, torch.Tensor]) -> None:
        """Notes where the branches go with inputs with which the file is right."""
        resized = any(
            self._inputs.tensor(slot).shape != changes[slot.name].shape
            for slot in self._inputs.slots
            if slot.name in changes
        )
        wanted = [read for read in self.all.values() if self._may_turn(read, resized)]
        if not self._left or not wanted:
            return
        self._runs[resized] += 1
        start = time.perf_counter()
        found = self._observed(changes)
        self._left = max(0.0, self._left - (time.perf_counter() - start))
        if found is None:
            self._left = 0.0  # it will not be observed next time either
        for key, read in (found or {}).items():
            if key in self.all:
                self.all[key].changes |= self.all[key].sources != read.sources
                self.all[key].results.update(read.results)

    def _may_turn(self, read: Read, resized: bool) -> bool:
        """Whether another run may show the other side of a branch."""
        changes = read.changes or self._runs[resized] < _RUNS
        return _one_sided(read) and changes and (resized or not read.of_length)

    def one_sided(self) -> dict[SourceLine, Read]:
        """The branches on something that changes which always went the same way."""
        reads = [read for read in self.all.values() if _one_sided(read) and read.changes]
        return {read.place: read for read in reads if not _refuses(read.place)}

    def _observed(self, changes: Mapping[str, torch.Tensor]) -> dict[Any, Read] | None:
        recorded = Recorded()
        args, kwargs = self._inputs.replaced(changes).exported_call()
        leaves, spec = pytree.tree_flatten((args, kwargs))
        places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        call = _Call(self._model, leaves, places, spec)
        tensors = tuple(leaves[place] for place in places)
        try:
            with torch.no_grad(), self._unchanged(self._model), TraceReads(recorded):
                _trace(call, tensors)
        except Exception:  # of the model or of torch; then nothing is said about its branches
            return None
        return recorded.reads


def _trace(call: torch.nn.Module, tensors: tuple[torch.Tensor, ...]) -> None:
    try:
        torch.jit._get_trace_graph(call, tensors)
    except RuntimeError as error:  # (as the exporter: this trace cannot call scripted modules)
        if "is not part of the active trace" not in str(error):
            raise
        torch.jit.trace(call, tensors, check_trace=False)


class _Call(torch.nn.Module):
    """The model, as a function of the tensors among its arguments."""

    def __init__(self, model: Any, leaves: list[Any], places: list[int], spec: Any) -> None:
        super().__init__()
        self.model = model
        self._leaves, self._places, self._spec = leaves, places, spec

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        filled = list(self._leaves)
        for place, tensor in zip(self._places, tensors, strict=True):
            filled[place] = tensor
        args, kwargs = pytree.tree_unflatten(filled, self._spec)
        self.model(*args, **kwargs)
        return torch.zeros(())


def _one_sided(read: Read) -> bool:
    return len(read.results) == 1


def _refuses(place: SourceLine) -> bool:
    """Whether the branch only refuses inputs, or says something: assert, `if h % 8: raise`."""
    for node in _branches(place.file):
        test = node.test
        if test.lineno <= place.line <= (test.end_lineno or test.lineno):
            if isinstance(node, ast.Assert):
                return True
            if isinstance(node, ast.If) and any(map(_is_harmless, (node.body, node.orelse))):
                return True
    return False


@functools.lru_cache(64)
def _branches(file: str) -> list[Any]:
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return []
    return [node for node in ast.walk(tree) if isinstance(node, (ast.If, ast.Assert))]


def _is_harmless(body: list[ast.stmt]) -> bool:
    if body and isinstance(body[-1], ast.Raise):
        return True
    return bool(body) and all(_name_of_call(item) in _SAYING for item in body)


def _name_of_call(item: ast.stmt) -> str:
    call = item.value if isinstance(item, ast.Expr) else None
    function = call.func if isinstance(call, ast.Call) else None
    return getattr(function, "attr", "") or getattr(function, "id", "")
