"""Records what torch's exporters assume about lengths, and in which line of the model.

torch.export decides every comparison with a length by the example's length, and records its
decisions: the program is right for all lengths for which they hold. A trace records nothing;
trace_reads.py notes what forward reads into Python.
"""

from __future__ import annotations

import contextlib
import functools
import linecache
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch

import myops

_TORCH = os.path.dirname(os.path.abspath(torch.__file__))
_MYOPS = os.path.dirname(os.path.abspath(myops.__file__))
_PYTHON = os.path.dirname(os.path.abspath(contextlib.__file__))
_EXPORTERS = ("onnxscript", "onnx_ir", "sympy", "numpy")
_LINE = re.compile(r'File "([^"]+)", line (\d+)')

_SYMBOLS = (torch.SymInt, torch.SymFloat)

Axis = tuple[str, int]  # name of an input, axis


@dataclass(frozen=True)
class SourceLine:
    """A line of the model."""

    file: str
    line: int

    def __str__(self) -> str:
        code = linecache.getline(self.file, self.line).strip()
        return f"{self.file}:{self.line}" + (f": {code}" if code else "")

    @property
    def code(self) -> str:
        return linecache.getline(self.file, self.line)


@dataclass(frozen=True)
class Attribute:
    """An argument of a custom operator that must be constant but was given a dynamic length."""

    operator: str
    name: str
    place: SourceLine | None


@dataclass
class Read:
    """A line of the model that reads a number into Python, in one call of its function.

    how: By which function.
    of_length: Whether the number is computed from lengths only.
    sources: For each time that one run reads it, a number for what it was computed from.
    results: For a branch on other lengths than 0 and 1, or on values, where it went in any run.
    changes: Whether another run computed it from something else.
    """

    place: SourceLine
    how: str
    of_length: bool
    sources: set[int] = field(default_factory=set)
    results: set[bool] = field(default_factory=set)
    changes: bool = False


@dataclass
class Condition:
    """A decision of torch.export: `relation` over symbols for lengths of inputs."""

    environment: Any
    relation: Any
    place: SourceLine | None
    attribute: Attribute | None = None

    @functools.cached_property
    def known(self) -> Any:
        """The relation, expressed in the symbols that remain after the export."""
        return self.relation.xreplace(getattr(self.environment, "replacements", {}))

    def holds(self, values: Mapping[Any, int]) -> bool | None:
        """Whether it holds for these lengths, by symbol; None if it depends on something else too,
        or divides by 0."""
        import sympy

        try:
            result = self.known.xreplace({symbol: sympy.Integer(v) for symbol, v in values.items()})
        except ZeroDivisionError:
            return None
        return bool(result) if result in (sympy.true, sympy.false) else None


@dataclass
class Recorded:
    """Everything that was recorded during one export.

    conditions: From torch.export, in all its attempts.
    reads: From a trace: lengths and numbers that forward read into Python, by the calls that lead
        there.
    attributes: From a trace: arguments of custom operators that became constants.
    first_error: The error of torch.export's first attempt.
    program: The program that torch.export made, if it succeeded.
    failed: From a trace: the operator that torch could not write, and where forward calls it.
    origins: From a trace: what torch says of the origin of each value of the graph, by its name.
    keys: From a trace: the names of outputs that follow from the keys of a dict; "" for others.
    parametrized: Whether the model computes some of its weights (torch.nn.utils.parametrize).
    """

    conditions: list[Condition] = field(default_factory=list)
    reads: dict[Any, Read] = field(default_factory=dict)
    attributes: list[Attribute] = field(default_factory=list)
    first_error: BaseException | None = None
    program: Any = None
    failed: tuple[str, SourceLine | None] | None = None
    origins: dict[str, str] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)
    parametrized: bool = False


@contextlib.contextmanager
def recording_torch_export(found: Recorded) -> Iterator[None]:
    """Records what torch.export decides. If a torch release has other names, nothing is
    recorded."""
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    log, export = getattr(ShapeEnv, "_log_guard", None), torch.export.export

    def log_guard(self: Any, prefix: str, relation: Any, *args: Any, **kwargs: Any) -> Any:
        if "suppressed" not in prefix and all(r.relation is not relation for r in found.conditions):
            place, attribute = _where(relation)
            found.conditions.append(Condition(self, relation, place, attribute))
        assert log is not None
        return log(self, prefix, relation, *args, **kwargs)

    def exporting(*args: Any, **kwargs: Any) -> Any:
        try:
            found.program = export(*args, **kwargs)
            return found.program
        except Exception as error:
            found.first_error = found.first_error or error
            raise

    with contextlib.ExitStack() as stack:
        if log is not None:
            stack.enter_context(mock.patch.object(ShapeEnv, "_log_guard", log_guard))
        stack.enter_context(mock.patch.object(torch.export, "export", exporting))
        yield


def traced_place(origin: str) -> SourceLine | None:
    """The innermost line of the model in what a node of a trace says of its origin."""
    for file, line in re.findall(r"^(.+)\((\d+)\): ", origin, re.MULTILINE):
        if file.startswith(os.path.join(_TORCH, "jit") + os.sep):
            return None  # the lines after it called the exporter
        if is_users(file):
            return SourceLine(file, int(line))
    return None


def constant_arguments(
    function: Any, args: Any, kwargs: Any
) -> Iterator[tuple[tuple[str, str], Any]]:
    """(operator, argument) and value for each argument of a custom operator that is no tensor."""
    from myops.onnx.guards._calls import TORCHS

    overload = function
    if isinstance(function, torch._ops.OpOverloadPacket):
        names = function.overloads()
        overload = getattr(function, names[0]) if len(names) == 1 else None
    if not isinstance(overload, torch._ops.OpOverload) or overload.namespace in TORCHS:
        return
    name = overload.name().partition(".")[0]
    declared = overload._schema.arguments
    given = {item.name: value for item, value in zip(declared, args, strict=False)} | dict(kwargs)
    inputs = _number_inputs(name)
    for item in declared:
        kind = str(item.real_type)
        if item.name in given and "Tensor" not in kind and item.name not in inputs:
            yield (name, item.name), given[item.name]


def _number_inputs(name: str) -> set[str]:
    """Arguments of a described op that become inputs of its node although they may be lists."""
    from myops import _libraries

    infos = [info for info in _libraries.nodes() if info.qualified == name]
    return {item.name for info in infos for item in info.inputs}


def user_place(frame: Any = None) -> SourceLine | None:
    """The innermost line outside torch and this library in the stack of the caller."""
    frame = frame or sys._getframe(1)
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            return SourceLine(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return None


def is_users(file: str) -> bool:
    """Whether code in a file belongs to the model, judged by the file's name."""
    folder = os.sep.join(file.split(os.sep)[:-1]) + os.sep
    if file.startswith("<") or folder.startswith((_TORCH + os.sep, _MYOPS + os.sep)):
        return False
    # The passes of torch.fx name themselves by a path within site-packages.
    if file.startswith("torch" + os.sep) and os.path.isfile(os.path.join(_TORCH, "..", file)):
        return False
    if folder.startswith(_PYTHON + os.sep) and "-packages" not in folder[len(_PYTHON) :]:
        return False
    return not any(f"{os.sep}{name}{os.sep}" in folder for name in _EXPORTERS)


def last_place(trace: str) -> SourceLine | None:
    """The innermost line of the model in a traceback that torch keeps as text."""
    for file, line in reversed(_LINE.findall(trace)):
        if is_users(file):
            return SourceLine(file, int(line))
    return None


def _where(relation: Any) -> tuple[SourceLine | None, Attribute | None]:
    """The model's line that led to a decision, and the argument of a custom operator."""
    place = None
    attribute = None
    frame: Any = sys._getframe(2)
    while frame is not None and place is None:
        code = frame.f_code
        if attribute is None and code.co_name == "__call__" and code.co_filename.startswith(_TORCH):
            attribute = _frozen_argument(frame, relation)
        if is_users(code.co_filename):
            place = SourceLine(code.co_filename, frame.f_lineno)
        frame = frame.f_back
    place = place if _within_export(frame) else None
    place = place or _dynamo_place()
    if attribute is not None:
        attribute = Attribute(attribute.operator, attribute.name, place)
    return place, attribute


def _within_export(frame: Any) -> bool:
    """Whether an outer frame is torch.onnx's `export`: then the line belongs to the model."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(_TORCH) and "onnx" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


def _dynamo_place() -> SourceLine | None:
    """The same if TorchDynamo interprets forward's bytecode instead of running it."""
    try:
        stack = torch._guards.TracingContext.extract_stack()
    except Exception:
        return None
    for summary in reversed(stack):
        if is_users(summary.filename):
            return SourceLine(summary.filename, summary.lineno or 0)
    return None


def _frozen_argument(frame: Any, relation: Any) -> Attribute | None:
    """The argument of a custom operator's call whose value is the length that the relation
    fixes."""
    overload = frame.f_locals.get("self")
    args, kwargs = frame.f_locals.get("args", ()), frame.f_locals.get("kwargs", {})
    if not isinstance(args, tuple) or not isinstance(kwargs, dict):
        return None
    for named, value in constant_arguments(overload, args, kwargs):
        for item in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(item, _SYMBOLS) and relation.has(item.node.expr):
                return Attribute(*named, None)
    return None
