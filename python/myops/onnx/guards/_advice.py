"""Advice for a length that became a constant: in which line, by what, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction

import torch

from myops.onnx.exporting import dtypes
from myops.onnx.exporting.recorded import Condition, Read, SourceLine
from myops.onnx.graph import scopes
from myops.onnx.guards._exported import Exported
from myops.onnx.symbolics.attribute_text import follows_a_length

_MOST = 3  # places to name
_WITHOUT_INT = "integer arithmetic without int(): h // 14 * 14 instead of int(h / 14) * 14"
_LENGTH = r"([A-Za-z_][\w.]*(?:\[-?\w+\]|\(-?\w+\))?)"
_INSTEAD = [
    (r"\bmath\.ceil\(", "-(-h // n) instead of math.ceil(h / n)"),
    (r"\bmath\.(floor|trunc)\(", "h // n instead of math.floor(h / n)"),
    (r"\bround\(", "(2 * h + n) // (2 * n) instead of round(h / n)"),
    (r"\bnp\.|\bnumpy\.|\.numpy\(", "Python's operators on x.shape[i] instead of NumPy"),
    (r"\.item\(|\.tolist\(", "the tensor instead of its .item() or .tolist()"),
    (r"\b(torch\.|as_)tensor\(|\b\w*Tensor\(",
     "torch.stack([torch.full((), h), torch.full((), w)]) instead of torch.tensor([h, w])"),
    (r"\broll\(", "torch.cat([x[..., k:], x[..., :k]], -1) instead of torch.roll(x, -k, -1)"),
    (r"scale_factor", "size=(2 * h, 2 * w) instead of a scale_factor that is made of lengths"),
    (r"(?<!\.)\bint\(", _WITHOUT_INT),
    (r"(?<!\.)\bfloat\(", "the length itself instead of float() of it; sizes instead of factors"),
    (r"\b(if|while|assert|and|or|not)\b", "one computation for all lengths instead of a branch: "
     "F.pad(x, (0, -w % n)) also where nothing is to be padded; or torch.cond"),
    (r"\bfor\b|\brange\(", "a tensor (torch.arange(h), stack, view) instead of a Python loop or "
     "list over a length"),
]  # fmt: skip
_INSTEAD_OF_VALUE = [
    (r"\.item\(|\.tolist\(", "the tensor instead of its .item() or .tolist()"),
    (r"\b(if|while|assert|and|or|not)\b",
     "torch.where(condition, a, b) instead of a branch on a value, or torch.jit.script the module"),
    (r"(?<!\.)\b(int|float|bool|complex)\(|\bnumpy\(|\bnp\.",
     "the tensor instead of a number of Python"),
    (r"\bfor\b|\brange\(", "one operation on the whole tensor, with a mask, instead of a loop"),
]  # fmt: skip


def of_lengths(
    exported: Exported,
    changes: Mapping[str, torch.Tensor],
    broken: Sequence[tuple[Condition, str]],
    origin: Callable[[], str],
    difference: str = "",
) -> str:
    """Says which length became a constant, and where.

    Args:
        changes: The inputs there.
        broken: torch.export's conditions that do not hold there.
        origin: Says at which node it starts, where nothing else is known.
        difference: How the results differ, where both have some.
    """
    for condition, _ in broken:
        if condition.attribute is not None:
            item = condition.attribute
            return of_attribute(item.operator, item.name, item.place)
    placed = [(item.place, text) for item, text in broken if item.place is not None]
    if placed:
        said = dict(reversed(placed))
        lines = [f"{place}, holds only where {text}" for place, text in list(said.items())[:_MOST]]
        advice = instead(said)
    else:
        reads = _reads(exported, changes)
        lines = [f"{read.place}, by {read.how}" for read in reads[:_MOST]]
        advice = instead_of(reads)
    resize = of_resize(exported, difference) if difference and not lines else ""
    if resize:
        return resize
    if not lines:
        return origin() + (
            " Look for a length that forward computes with in Python (int(), float(), round(), "
            "math, NumPy, a branch, a list), or a tensor made with a fixed size; else the other "
            'exporter may be right: exporter="auto" tries both.'
        )
    where = f"A length of the example is built in at {'; at '.join(lines)}."
    return where + (advice or _any_length(exported, changes, " ".join(lines)))


def _any_length(exported: Exported, changes: Mapping[str, torch.Tensor], said: str) -> str:
    """What to write if nothing is known of the code: with the axis that `said` is about, or else
    the last of the dynamic axes that `changes` has at another length."""
    advice = " Write it in a way that is the same for all lengths"
    before = {slot.name: exported.inputs.tensor(slot).shape for slot in exported.inputs.slots}
    axes = [(name, axis) for name, axis in exported.dynamic
            if name in changes and changes[name].shape[axis] != before[name][axis]]  # fmt: skip
    if not axes or re.search(r"\b(min|max|minimum|maximum|clamp)\(", said):
        return f"{advice}."  # which of two lengths is larger does not follow from multiples
    named = [(name, axis) for name, axis in axes if re.search(rf"\b{axis}\]", said)]
    name, axis = (named or axes)[-1]
    dims = exported.graph_inputs[name].type.tensor_type.shape.dim if name in (
        exported.graph_inputs) else ()  # fmt: skip
    title = dims[axis].dim_param.rpartition("*")[2] if axis < len(dims) else ""
    title = title if title.isidentifier() else "n"
    number = 2 * exported.multiples.get((name, axis), 1)
    # It is right at the example. So it is not the multiples that matter where the example is none,
    # or where the other length is one, too.
    while before[name][axis] % number == 0 == changes[name].shape[axis] % number:
        number *= 2
    if before[name][axis] % number:
        return f"{advice}."
    return (
        f"{advice}. Where it is right for multiples of a number only, say which: "
        f'dynamic_axes={{"{name}": {{{axis}: "{number}*{title}"}}}} for multiples of {number}.'
    )


def of_resize(exported: Exported, difference: str) -> str:
    """For results that differ if the file has nodes of ONNX's Resize."""
    nodes = scopes.all_nodes(exported.final.graph.node)
    if difference.startswith(("shape ", "dtype ")) or not any(
        node.op_type == "Resize" and node.domain in ("", "ai.onnx") for node in nodes
    ):
        return ""
    return (
        "The file has Resize nodes, which round positions in another way than torch's interpolate. "
        "With register_interpolate=True they become myops::Resize, which rounds as torch does."
    )


def of_values(
    exported: Exported, changes: Mapping[str, torch.Tensor], title: str, origin: Callable[[], str]
) -> str:
    """For results that differ with other numbers in the inputs, but not with the example's.

    Args:
        changes: These inputs.
        title: What numbers, as special_values.py calls them.
        origin: Says at which node it starts, where nothing else is known.
    """
    reads = of_reads(exported, changes)
    if reads:
        return reads
    if title == "negative":
        return (
            f"{origin()} Look for a division, a shift or a power; the other exporter may write it "
            "rightly."
        )
    return origin() + (
        " Often a small constant was left out, or is 0 in the file's dtype: make it larger (1e-6), "
        "or write clamp_min(1e-6), or try the other exporter."
    )


def of_dtypes(exported: Exported) -> str:
    """For a node without a kernel in a model of a 16-bit type."""
    narrow = sorted(exported.calls.floats & {"float16", "bfloat16"})
    if not narrow:
        return ""
    cause, remedy = dtypes.advice(exported.model, exported.inputs, narrow[0])
    return (
        f" Why: {cause}, for which ONNX Runtime has few kernels on CPUs. Where the file is to run "
        f"on one, write {remedy}."
    )


def of_reads(exported: Exported, changes: Mapping[str, torch.Tensor] | None) -> str:
    """The lines that read a number into Python which these inputs change (None: any number), while
    the model is traced; empty without any."""
    reads = _reads(exported, changes)
    where = "; at ".join(f"{read.place}, by {read.how}" for read in reads[:_MOST])
    return f"A number is read into Python at {where}.{instead_of(reads)}" if reads else ""


def _reads(exported: Exported, changes: Mapping[str, torch.Tensor] | None) -> list[Read]:
    """What a trace read into Python: branches last, as most of them only refuse wrong inputs."""
    traced = exported.traced_reads
    found = list(traced.all.values()) if changes is None else traced.changing(changes)
    places: dict[SourceLine, Read] = {}
    for read in found:
        places.setdefault(read.place, read)
    return sorted(places.values(), key=lambda read: read.how.startswith("if"))


def of_operator(operator: str) -> str:
    """For an operator that torch's exporter cannot write, or writes as something else."""
    if not operator:
        return (
            "Write other operations of torch there, or tell both exporters how the operator that "
            "is called there is written: myops.onnx.register_symbolic(its name, function)."
        )
    return (
        "Write other operations of torch there, or tell both exporters how it is written: "
        f"myops.onnx.register_symbolic({operator!r}, function)."
    )


def of_attribute(operator: str, name: str, place: SourceLine | None) -> str:
    return follows_a_length(operator, name, f" at {place}" if place is not None else "")


def instead(
    places: Iterable[SourceLine], advice: Sequence[tuple[str, str]] = tuple(_INSTEAD)
) -> str:
    """What to write instead of the code in these lines."""
    code = " ".join(place.code for place in list(places)[:_MOST])
    texts = [text for pattern, text in advice if re.search(pattern, code)][:2]
    factor = _integer_factor(code)
    texts = [factor if factor and text == _WITHOUT_INT else text for text in texts]
    return f" Write {'; and '.join(texts)}." if texts else ""


def _integer_factor(code: str) -> str:
    """What to write for int(h * 1.1); "" where there is no such product."""
    found = re.search(rf"\bint\(\s*{_LENGTH}\s*\*\s*(\d*\.\d+)\s*\)", code)
    length, factor = found.groups() if found else ("", "0")
    if found is None:
        found = re.search(rf"\bint\(\s*(\d*\.\d+)\s*\*\s*{_LENGTH}\s*\)", code)
        factor, length = found.groups() if found else ("0", "")
    exact = Fraction(factor)
    if found is None or not 1 < exact.denominator <= 10_000:
        return ""
    product = length if exact.numerator == 1 else f"{length} * {exact.numerator}"
    return f"integers: {product} // {exact.denominator} instead of {found[0]}"


def instead_of(reads: Sequence[Read]) -> str:
    """What to write instead of the code that reads these numbers."""
    named = reads[:_MOST]
    if any(read.of_length for read in named):
        return instead(read.place for read in named)
    return instead((read.place for read in named), _INSTEAD_OF_VALUE)
