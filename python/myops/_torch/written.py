"""Functions for callers of an op, generated as source text, also for TorchScript."""

from __future__ import annotations

import linecache
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Optional

import torch

if TYPE_CHECKING:
    from myops._torch.call import TorchOp

_TYPES = {
    "bool": "bool", "int": "int", "float": "float", "string": "str",
    "ints": "List[int]", "floats": "List[float]", "double": "float", "doubles": "List[float]",
    "strings": "List[str]",
}  # fmt: skip


def function_of(op: TorchOp, doc: str, module: str) -> Callable[..., Any]:
    """The function for callers, like the hand-written one of an op file.

    It is generated as source text, because TorchScript reads source text (and accepts no
    keyword-only argument with a default), and compilers trace it best.
    """
    info = op.info
    taken = {info.name} | {i.name for i in info.inputs} | {a.name for a in info.attributes}
    module_name, op_name = _free("torch", taken), _free("_op", taken)
    parameters = []
    required = ""  # in scripts only: what is required may not be None for the dispatcher
    inputs = info.inputs[:-1] if info.random else info.inputs
    for number, item in enumerate(inputs):
        kind = "Optional[Tensor]" if item.optional else "Tensor"
        kind = "Any" if item.values else "List[Tensor]" if item.variadic else kind
        droppable = any(earlier.optional for earlier in inputs[: number + 1])
        if droppable and not item.optional:  # by name, behind one that the call leaves out
            kind = kind if kind == "Any" else f"Optional[{kind}]"
            missing = f"{info.name}: {item.name}: got nothing, expected a tensor"
            required += f"        assert {item.name} is not None, {missing!r}\n"
        parameters.append(f"{item.name}: {kind}" + (" = None" if droppable else ""))
    for attribute in info.attributes[:-1] if info.random else info.attributes:
        default = attribute.short_default
        kind = _TYPES[attribute.type]
        kind = f"Optional[{kind}]" if default is None else kind
        parameters.append(f"{attribute.name}: {kind} = {_literal(default)}")
    required += "".join(
        f"        assert {item.name} is not None, {info.missing_text(item)!r}\n"
        for item in info.attributes
        if item.required
    )
    names = [item.name for item in info.inputs]
    passed = ", ".join([*names, *(f"{item.name}={item.name}" for item in info.attributes)])
    scripted, called = passed, passed
    before = required
    if info.random:
        parameters += ["seed: Optional[int] = None", "key: Optional[Tensor] = None"]
        parameters += ["generator: Any = None"]
        before += (
            "        if seed is None and key is None:\n"
            f"            key = {module_name}.randint(0, 9223372036854775807, [1])\n"
        )
        scripted = passed.replace("seed=seed", "seed=0 if seed is None else seed")
        called = passed + ", generator=generator"
    source = (
        f"def {info.name}({', '.join(parameters)}):\n"
        f"    if {module_name}.jit.is_scripting():\n"
        f"{before}"
        f"        return {module_name}.ops.{info.namespace}.{info.name}({scripted})\n"
        f"    else:\n"
        f"        return {op_name}({called})\n"
    )
    file = f"<myops {info.qualified}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace = {module_name: torch, "Tensor": torch.Tensor, "Optional": Optional, "List": list,
                 "Any": Any, op_name: op}  # fmt: skip
    exec(compile(source, file, "exec"), namespace)
    made: Any = namespace[info.name]
    made.__doc__, made.__module__ = doc, module
    return made


def _free(name: str, taken: set[str]) -> str:
    """`name`, or one like it that no argument has."""
    while name in taken:
        name += "_"
    return name


def _literal(default: Any) -> str:
    if isinstance(default, (list, tuple)):  # TorchScript takes no list as a default
        return f"({''.join(f'{_literal(item)}, ' for item in default)})"
    finite = not isinstance(default, float) or math.isfinite(default)
    return repr(default) if finite else f"float('{default}')"


_scripted: list[TorchOp] = []  # kept alive, because torch identifies them by their addresses


def let_scripts_call(op: TorchOp) -> None:
    """Makes functions that call `op` scriptable, if this torch has the private names for it. (The
    op itself is always scriptable.)"""
    if op.info.random:  # the dispatcher's op has the same seed at every run
        chosen = getattr(getattr(torch, "_jit_internal", None), "boolean_dispatched", None)
        if chosen is not None:
            drawing = function_of(op, op.info.doc, __name__)
            # What scripts call depends on a flag that no call gives.
            chosen[op] = {"if_true": drawing, "if_false": drawing, "index": 1 << 30,
                          "default": False, "arg_name": ""}  # fmt: skip
        return
    register = getattr(getattr(torch.jit, "_builtins", None), "_register_builtin", None)
    if register is not None:
        register(op, op.info.qualified)
        _scripted.append(op)
