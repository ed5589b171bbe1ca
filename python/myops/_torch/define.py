"""The implementation of `Library.define`: the torch side of an op, and its symbolics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from myops import _libraries, _shape_rule
from myops._description import OpInfo
from myops._op_library import Library
from myops._torch import text_rule
from myops._torch.call import TorchOp
from myops._torch.described_gradient import described
from myops._torch.loading import load
from myops._torch.random import RandomOp
from myops.onnx.symbolics import symbolic, translation

# Called once in each ops/<op>.py. The op file provides what cannot be derived (gradient, symbolic
# shape); all names (schema, attributes, node) come from the description in C++.
define = _libraries.OURS.define


def _functional(library: Library, info: OpInfo) -> str:
    """The op without writes that replaces `info` in compiled and exported programs."""
    for other in library.ops.values():
        if other.in_place == info.name:
            return other.name
    raise ValueError(
        f"{info.name}: got an op that writes into its inputs alone, expected another one that "
        "writes nothing, for programs that are compiled or exported: describe it in C++ with "
        f"MYOPS_OP({info.name.removesuffix('_')}) "
        f"{{ return functional_of(describe_{info.name}()); }}"
    )


def define_op(
    library: Library,
    info: OpInfo,
    shape: Callable[..., Any] | None,
    save: Callable[..., None] | None,
    backward: Callable[..., Any] | str | None,
    jvp: Callable[..., Any] | None,
    vmap: Callable[..., Any] | None,
) -> TorchOp:
    """Makes the callable of an op; the arguments are those of `Library.define`."""
    load(library)
    use_gradient: Callable[[TorchOp], None] | None = None
    if isinstance(backward, str):
        save, backward, use_gradient = described(library, info, backward, save)
    derived = text_rule.rule_of if info.rule else _shape_rule.symbolic_rule
    rule: Callable[..., Any] = shape or derived(info)
    kind = RandomOp if info.random else TorchOp
    functional = _functional(library, info) if info.writes else ""
    op = kind(info, library.torch_library, rule, save, backward, jvp, vmap, functional)
    if use_gradient is not None:
        use_gradient(op)
    if info.onnx_type:
        symbolic.register(info)
        translation.register()
    return op
