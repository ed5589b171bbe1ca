"""The message when torch's exporter fails: where, why, and what to write instead."""

from __future__ import annotations

import math
import os
import re
import tempfile
import traceback
from collections.abc import Iterator
from typing import Any

import torch

from myops.onnx.exporting.inputs import Inputs
from myops.onnx.exporting.recorded import Condition, Recorded, SourceLine, is_users, last_place
from myops.onnx.guards import ExportCheckError, _advice

_REASON = re.compile(r"Why: |torch says(?: \(while it writes \S+\))?: ")
_CAUSE = re.compile("Why: |export: the exporter (does not know|cannot write)")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m|\[\d+m")

# torch's messages about an operator without a translation.
_UNKNOWN_OPERATOR = re.compile(
    r"No ONNX function found for <OpOverload\(op='([\w.]+)'"
    r"|unrecognized namespace (\w+::\w+)"
    r"|Exporting the operator '(\w+::\w+)' to ONNX opset version \d+ is not supported"
    r"|We don't have an op for (\w+::\w+)"
)

_COMPLEX = ("aten::polar", "aten::complex", "aten::view_as_complex", "aten::view_as_real")

_UNSOLVED = r"cannot be\s+solved|[Nn]ot all values of .* satisfy the generated guard"
# The strides of networks.
_MULTIPLES = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 24, 28, 32, 48, 56, 64, 128, 256)

_TITLES = {2: "h", 3: "w"}

# torch's message (a regular expression), its meaning, and what to write instead.
_CAUSES = [
    (r"only 4D query, key, and value are supported",
     "the exporter writes scaled_dot_product_attention of tensors with 4 axes only",
     "scaled_dot_product_attention(q.unsqueeze(1), k.unsqueeze(1), v.unsqueeze(1)).squeeze(1)"),
    (r"aten::roll|aten\.roll|Unsupported attribute type: '<class 'list'>'",
     "the exporter writes torch.roll by constant shifts only, and a shift follows a length",
     "torch.cat([x[..., k:], x[..., :k]], -1) instead of torch.roll(x, -k, -1)"),
    (r"__obj_flatten__|PackedParams|quantized::",
     "the weights are quantised by torch, in a form that the exporter cannot read",
     "the export of the model as it was before, and myops.onnx.quantize(exported, data=...) "
     "afterwards"),
    (r"Failed to export a node '%\S+ : \w+\(.*= onnx::",
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
     "a function needs a plain number and gets the length of an input, which becomes a constant "
     "by that",
     "what follows the length: torch.arange(h) instead of torch.linspace(a, b, h) or of a loop"),
    (r"__round__|built-in function round",
     "round() is applied to a tensor or a length that the exporter follows",
     "torch.round(x) for a tensor, (2 * h + n) // (2 * n) for round(h / n)"),
    (_UNSOLVED,
     "what forward computes is right for some of the lengths only that dynamic_axes allows",
     ""),
    (r"symbolically traced variables cannot be used as inputs to control flow|int_truediv"
     r"|IntTrueDiv",
     "a float is made of a length (float(), or / between lengths), which torch.export cannot keep",
     "integer arithmetic (//), size= instead of scale_factor=, or a tensor: torch.full((), h) / n"),
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
    (r"'SymInt' object|SymInt|SymFloat",
     "a function that takes plain numbers only is called with a length that is dynamic",
     "integer arithmetic on x.shape[i] in Python"),
]  # fmt: skip


class ExporterError(RuntimeError):
    """torch's exporter failed on the model.

    known: Whether the text says why, in other words than torch's.
    """

    def __init__(
        self, error: Exception, exporter: str, inputs: Inputs, opset: int, recorded: Recorded
    ) -> None:
        self._error, self._recorded = error, recorded
        said = _sentences(error, exporter, inputs, opset, recorded)
        self._sentences = [sentence for sentence in said if sentence]
        self.known = any(map(_CAUSE.match, self._sentences))
        super().__init__(" ".join(self._sentences))

    def add(self, sentence: str) -> None:
        self._sentences.append(sentence)

    def complete(self) -> RuntimeError:
        """The error for the user, which names the file with torch's whole message."""
        path = _written(self._error, self._recorded)
        self._sentences.append(f"The whole message of torch is in {path}.")
        return RuntimeError(" ".join(self._sentences))


def of_the_model(error: Exception) -> str:
    """For a model that PyTorch itself does not run."""
    place = _last_frame(error)
    where = f" Where: {place}." if place is not None else ""
    return (
        "export: PyTorch does not run the model with the example inputs either, so nothing can be "
        f"exported.{where} PyTorch says: {first_line(error)}. Give other inputs, or correct the "
        "model."
    )


def _last_frame(error: BaseException) -> SourceLine | None:
    """The innermost line of the model in a traceback."""
    frames = [
        SourceLine(frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if is_users(frame.f_code.co_filename)
    ]
    return frames[-1] if frames else None


def is_ours(error: BaseException) -> bool:
    """Whether this library raised the error, so that its message needs no explanation."""
    if not isinstance(error, (ValueError, TypeError)):
        return False
    frames = list(traceback.walk_tb(error.__traceback__))
    file = frames[-1][0].f_code.co_filename if frames else ""
    return f"{os.sep}myops{os.sep}onnx{os.sep}" in file


def refusal_of_ours(error: BaseException) -> BaseException | None:
    """The error among an error and its causes for which `is_ours` holds: torch wraps the errors of
    translations."""
    return next((item for item in _chain(error, Recorded()) if is_ours(item)), None)


def text(error: BaseException) -> str:
    """A message without torch's colours and without the advice to skip the check."""
    if isinstance(error, ExportCheckError):
        return f"{error.check}: {error.text}"
    return plain(str(error)).removeprefix("export: ")


def reason(error: BaseException) -> str:
    """The part of a message that gives the reason, in one sentence."""
    said = text(error)
    why = _REASON.search(said)
    return first_line(RuntimeError(said[why.end() :] if why else said)).partition(". ")[0]


def plain(said: str) -> str:
    return _COLOURS.sub("", said)


def _chain(error: BaseException, recorded: Recorded) -> list[BaseException]:
    """The error and its causes; the original error is the last."""
    found: list[BaseException] = []
    item: BaseException | None = error
    while item is not None and item not in found:
        found.append(item)
        item = item.__cause__ or item.__context__
    first = recorded.first_error
    if first is not None and first not in found:
        found += _chain(first, Recorded())
    return found


def _sentences(
    error: Exception, exporter: str, inputs: Inputs, opset: int, recorded: Recorded
) -> Iterator[str]:
    chain = _chain(error, recorded)
    said = plain(" ".join(f"{type(item).__name__}: {item}" for item in chain))
    if recorded.failed is not None:
        said += f" while it writes {recorded.failed[0]}"
    unknown = _UNKNOWN_OPERATOR.search(said)
    if unknown:
        name = _called(chain) or next(filter(None, unknown.groups())).replace(".", "::", 1)
        name = name.partition(".")[0]
        yield _unknown_operator(name, opset, unknown.group(), said, _place(chain, recorded))
        if recorded.parametrized:
            yield (
                "Weights that torch.nn.utils.parametrize computes in each run become constants by "
                'parametrize.remove_parametrizations(module, "weight").'
            )
        return
    root = recorded.first_error or chain[-1]
    numbers = sorted({slot.parameter for slot in inputs.slots if slot.number is not None})
    given = f" with {', '.join(map(repr, numbers))} as inputs of the graph" if numbers else ""
    place = _place(chain, recorded)
    where = f" Where: {place}." if place else ""
    yield f"export: torch cannot export the model{given} (exporter={exporter!r}).{where}"
    cause, instead = _cause(chain, said)
    written = f" (while it writes {recorded.failed[0]})" if recorded.failed is not None else ""
    yield f"Why: {cause}." if cause else f"torch says{written}: {first_line(root)}."
    multiple = _multiple(said, recorded)
    if multiple:
        yield multiple
    elif instead:
        yield f"Write {instead}."
    else:
        advice = _advice.instead([place]).strip() if place is not None else ""
        operator = _failing_operator(chain, recorded)
        if not advice and operator:
            advice = _advice.of_operator(operator)
        yield advice
    if cause:
        yield f"torch says{written}: {first_line(root)}."
    if numbers:
        yield f"Numbers that are meant to be fixed: constants={numbers}."


def _failing_operator(chain: list[BaseException], recorded: Recorded) -> str:
    """What the exporter was writing when it failed; empty where it was not writing anything."""
    name = _called(chain) or (recorded.failed[0] if recorded.failed is not None else "")
    return name.partition(".")[0] if "::" in name and not name.startswith("prim") else ""


def _unknown_operator(
    name: str, opset: int, unknown: str, said: str, place: SourceLine | None
) -> str:
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
    return (
        f"export: the exporter does not know how to write the operator {name} in opset {opset}. "
        f"{where.strip()}{' ' if where else ''}Register it: {tell}; or try another exporter or "
        f"opset_version. torch says: {unknown}."
    )


def _cause(chain: list[BaseException], said: str) -> tuple[str, str]:
    if any(map(_asserted_by_model, chain)):
        return (
            "an assert of the model fails while it is exported; the lengths of the example or "
            "dynamic_axes do not fit it",
            'a multiple in dynamic_axes ("32*h") where lengths have to be multiples',
        )
    for pattern, cause, instead in _CAUSES:
        if re.search(pattern, said):
            return cause, instead
    return "", ""


def _asserted_by_model(error: BaseException) -> bool:
    """Whether an assert failed that is not torch's own."""
    frames = list(traceback.walk_tb(error.__traceback__))
    return type(error) is AssertionError and any(
        is_users(frame.f_code.co_filename) for frame, _ in frames[-1:]
    )


def _place(chain: list[BaseException], recorded: Recorded) -> SourceLine | None:
    """The innermost line of the model, from tracebacks or from what torch prints of them."""
    for error in reversed(chain):
        if _inside_torch(error):
            return _last_frame(error)
    if recorded.failed is not None and recorded.failed[1] is not None:
        return recorded.failed[1]
    for node in _translated(chain):
        place = last_place(_stack_trace(node))
        if place is not None:
            return place
    for error in reversed(chain):
        place = last_place(str(error))
        if place is not None:
            return place
    broken = [item.place for item in recorded.conditions if item.place is not None]
    return broken[-1] if broken else None


def _translated(chain: list[BaseException]) -> Iterator[torch.fx.Node]:
    """The nodes of torch.export's program that the exporter was writing when it failed."""
    for error in chain:
        for frame, _ in traceback.walk_tb(error.__traceback__):
            node = frame.f_locals.get("node")
            if isinstance(node, torch.fx.Node):
                yield node


def _called(chain: list[BaseException]) -> str:
    """What forward calls, where torch.export made other operators of it: "aten::cumprod"."""
    for node in _translated(chain):
        overload = node.meta.get("original_aten")
        if isinstance(overload, torch._ops.OpOverload):
            return overload.name()
    return ""


def _stack_trace(node: torch.fx.Node) -> str:
    """Where forward called what a node of torch.export's program stands for."""
    found = [node]
    for item in found:  # numbers have no line of their own, but what they are used for has
        if item.meta.get("stack_trace"):
            return str(item.meta["stack_trace"])
        found += [user for user in item.users if user not in found]
    return ""


def _inside_torch(error: BaseException) -> bool:
    """Whether the last line of the model in a traceback was called by torch, not by the caller."""
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    places = [number for number, file in enumerate(files) if is_users(file)]
    return bool(places) and any(not is_users(file) for file in files[: places[-1]])


def _multiple(said: str, recorded: Recorded) -> str:
    """For a condition that holds for some lengths only: multiples for which torch.export can prove
    it."""
    if re.search(_UNSOLVED, said) is None:
        return ""
    found: dict[str, dict[int, int]] = {}
    for condition in recorded.conditions:
        symbols = list(condition.relation.free_symbols)
        if len(symbols) == 1 and type(condition.relation).__name__ == "Equality":
            name, axis = _source(condition.environment, symbols[0])
            needed = _least_multiple(condition, symbols[0])
            if name and needed:
                axes = found.setdefault(name, {})
                axes[axis] = math.lcm(axes.get(axis, 1), needed)
    entries = [
        f'"{name}": {{'
        + ", ".join(f'{a}: "{n}*{_TITLES.get(a, "n")}"' for a, n in sorted(axes.items()) if n > 1)
        + "}"
        for name, axes in found.items()
        if any(n > 1 for n in axes.values())
    ]
    if not entries:
        return (
            "Where lengths have to be multiples, say so: dynamic_axes="
            '{"x": {2: "32*h", 3: "32*w"}}, with the name of the input and an example of such '
            "lengths."
        )
    return (
        "The lengths have to be multiples: say so with dynamic_axes={" + ", ".join(entries) + "} "
        "(or a larger multiple, such as the stride of the whole network), and with an example of "
        "such lengths."
    )


def _least_multiple(condition: Condition, symbol: Any) -> int:
    """The smallest number all of whose multiples fulfil a condition; 0 if there is none."""
    for number in _MULTIPLES:
        if all(condition.holds({symbol: number * n}) for n in range(1, 20)):
            return number
    return 0


def _source(environment: Any, symbol: Any) -> tuple[str, int]:
    """The input and the axis whose length a symbol denotes."""
    for source in getattr(environment, "var_to_sources", {}).get(symbol, ()):
        name = source.name() if callable(source.name) else source.name
        match = re.search(r"\['(\w+)'\]\.size\(\)\[(\d+)\]", str(name))
        if match:
            return match.group(1), int(match.group(2))
    return "", 0


def first_line(error: BaseException) -> str:
    lines = [line.strip() for line in plain(str(error)).splitlines() if line.strip()]
    line = lines[0] if lines else type(error).__name__
    line = re.split(r"\s*(?:\[Caused by the value|Please feel free to request)", line)[0]
    return (line if len(line) < 300 else line[:300] + " ...").rstrip(".")


def _written(error: Exception, recorded: Recorded) -> str:
    """Writes torch's whole message to a file; returns its path."""
    parts = [*traceback.format_exception(error)]
    if recorded.first_error is not None:
        parts += ["\ntorch.export said first:\n", *traceback.format_exception(recorded.first_error)]
    with tempfile.NamedTemporaryFile(
        "w", prefix="myops-export-", suffix=".txt", delete=False, encoding="utf-8"
    ) as file:
        file.write(plain("".join(parts)))
    return file.name
