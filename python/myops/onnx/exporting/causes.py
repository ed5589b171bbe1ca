"""torch's messages: what they mean, and what to write instead."""

from __future__ import annotations

import re

from myops._torch.interpolate import OPERATORS
from myops.onnx.exporting.multiples import UNSOLVED
from myops.onnx.exporting.recorded import SourceLine

# torch's messages about an operator without a translation.
UNKNOWN_OPERATOR = re.compile(
    r"No ONNX function found for <OpOverload\(op='([\w.]+)'"
    r"|unrecognized namespace (\w+::\w+)"
    r"|Exporting the operator '(\w+::\w+)' to ONNX opset version \d+ is not supported"
    r"|We don't have an op for (\w+::\w+)"
)

_COMPLEX = ("aten::polar", "aten::complex", "aten::view_as_complex", "aten::view_as_real")

# torch's message (a regular expression), its meaning, and what to write instead.
_CAUSES = [
    (r"only 4D query, key, and value are supported",
     "the exporter writes scaled_dot_product_attention of tensors with 4 axes only",
     "scaled_dot_product_attention(q.unsqueeze(1), k.unsqueeze(1), v.unsqueeze(1)).squeeze(1)"),
    (r"aten::roll|aten\.roll",
     "the exporter writes torch.roll by constant shifts only, and a shift follows a length",
     "torch.cat([x[..., k:], x[..., :k]], -1) instead of torch.roll(x, -k, -1)"),
    (r"__obj_flatten__|PackedParams|quantized::",
     "the weights are quantised by torch, in a form that the exporter cannot read",
     "the export of the model as it was before, and myops.onnx.quantize(exported, data=...) "
     "afterwards"),
    (r"Failed to export a node '%\S+ : \w+\(.*= onnx::|Unsupported attribute type: '<class",
     "an argument that ONNX has as an attribute, such as normalized_shape of layer_norm, follows "
     "the length of an input, and an attribute cannot",
     "a constant there, or the arithmetic itself: (x - x.mean(1, keepdim=True)) / ..."),
    (r"takes (from )?[\d to]+ positional arguments? but \d+ were given",
     "a trace gives every argument by position, and forward takes some by keyword only, or a "
     "scripted module gets a number that is none of its inputs",
     "forward without `*` among its parameters"),
    (r"input size not accessible|must be non-None",
     "the exporter writes this operator only where the lengths of its input are constant",
     ""),
    (r"[Cc]ould not (guard on|extract specialized integer from) data-dependent|GuardOnDataDependent"
     r"|data-dependent expression|DataDependentOutput|DynamicOutputShape",
     "forward decides something by a value that is computed from a tensor: an if, .item(), int() "
     "or a length",
     "torch.where instead of the if, the tensor instead of .item(); or script the module for "
     'exporter="torchscript"'),
    (r"Pending unbacked symbols",
     "the length of a result depends on values, and torch.export cannot follow that length here",
     "the same with a length that does not: torch.where instead of a selection by a mask"),
    (r"inferred a static shape|but your code specialized it",
     "a function, possibly inside of a layer such as a bidirectional LSTM, needs a plain number "
     "and gets the length of an input, which becomes a constant by that",
     "what follows the length: torch.arange(h) instead of torch.linspace(a, b, h) or of a loop; "
     'for a recurrent layer exporter="torchscript". Leave the axis out of dynamic_axes if the '
     "model takes one length only, as a layer does of its channels"),
    (r"__round__|built-in function round",
     "round() is applied to a tensor or a length that the exporter follows",
     "torch.round(x) for a tensor, (2 * h + n) // (2 * n) for round(h / n)"),
    (UNSOLVED,
     "what forward computes is right for some of the lengths only that dynamic_axes allows",
     ""),
    (r"symbolically traced variables cannot be used as inputs to control flow|int_truediv"
     r"|IntTrueDiv",
     "a float is made of a length (float(), or / between lengths), which torch.export cannot keep",
     "integer arithmetic (//), size= instead of scale_factor=, or a tensor: torch.full((), h) / n"),
    (r"following inconsistencies were found",
     "an operation needs equal lengths, or a length of 1, and torch.export cannot prove that of "
     "one that is computed from an input's, such as that of the slice x[:, -3:-2]",
     "a length that is a plain number: x[:, -3].unsqueeze(1), or x.narrow(1, x.shape[1] - 3, 1)"),
    (r"iteration over a 0-d tensor|only integer tensors of a single element|must be tuple of ints",
     "a length is a tensor of rank 0 while it is traced, and is used where a list or a plain "
     "number is expected; an attribute of an ONNX node cannot follow a length",
     "a list of lengths, or a number that does not depend on the input"),
    (r"received an invalid combination of arguments",
     "a function of torch that takes plain numbers gets a tensor: while a model is traced, every "
     "length is one, and what is computed from it",
     "sizes that are made of lengths by +, -, * and // instead of factors"),
    (r"_local_scalar_dense|\.item\(\)",
     "forward reads the number of a tensor into Python",
     "the tensor itself"),
    (r"did not have observable data dependence|'(int|float|bool)' object has no attribute 'name'",
     "forward returns a number that does not follow from its tensors",
     "torch.tensor(n), or leave it out"),
    (r"supported as JIT inputs/outputs|which is not a known type",
     "forward takes or returns an object that the exporter cannot look into",
     "a tuple or a dict of tensors; or, for dynamo, torch.export.register_dataclass"),
    (r"divmod\(\)",
     "divmod() takes no length that the exporter follows",
     "h // n and h % n"),
    (r"unhashable type: [\w -]*Sym(Int|Float|Bool)",
     "a dynamic length is the key of a dict or an element of a set, as in a cache",
     "forward without the cache, or compute what it holds in each call"),
    (r"'SymInt' object|SymInt|SymFloat",
     "a function that takes plain numbers only is called with a length that is dynamic",
     "integer arithmetic on x.shape[i] in Python"),
]  # fmt: skip


def explained(said: str) -> tuple[str, str]:
    """The cause of a message, and what to write instead; empty strings if it is not known."""
    for pattern, cause, instead in _CAUSES:
        if re.search(pattern, said):
            return cause, instead
    return "", ""


def unknown_operator(
    name: str, opset: int, unknown: str, said: str, place: SourceLine | None
) -> str:
    """The message for an operator without a translation."""
    where = f" Where: {place}." if place is not None else ""
    if name.startswith("quantized::"):
        return (
            f"export: torch cannot export the model: it calls {name}.{where} Why: the weights are "
            "quantised by torch, in a form that the exporter cannot read. Write the export of the "
            "model as it was before, and myops.onnx.quantize(exported, data=...) afterwards."
        )
    if name in _COMPLEX or "complex-valued input" in said:
        return (
            f"export: the exporter cannot write {name} of complex numbers, of which ONNX Runtime "
            f"has no tensors.{where} Write real and imaginary parts as real tensors: cos and sin "
            f"instead of torch.polar, products of them instead of one complex product. torch says: "
            f"{unknown}."
        )
    tell = f"myops.onnx.register_symbolic({name!r}, function)"
    if name == "torchvision::deform_conv2d":
        tell = "register_torchvision=True, or myops.onnx.register_torchvision()"
    elif name.removeprefix("aten::") in OPERATORS:
        tell = "register_interpolate=True, or myops.onnx.register_interpolate()"
    return (
        f"export: the exporter does not know how to write the operator {name} in opset {opset}. "
        f"{where.strip()}{' ' if where else ''}Register it: {tell}; or try another exporter or "
        f"opset_version. torch says: {unknown}."
    )
