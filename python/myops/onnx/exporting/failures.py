"""The message when torch's exporter fails: where, why, and what to write instead."""

from __future__ import annotations

import os
import re
import tempfile
import traceback
from collections.abc import Iterator, Sequence

import torch

from myops.onnx.exporting import causes, multiples
from myops.onnx.exporting.inputs import Inputs
from myops.onnx.exporting.recorded import (
    Axis,
    Recorded,
    SourceLine,
    is_users,
    last_place,
)
from myops.onnx.guards import ExportCheckError, _advice
from myops.onnx.symbolics.attribute_text import FollowsLengthError, follows_a_length

_REASON = re.compile(r"Why: |torch says(?: \(while it writes \S+\))?: ")
_CAUSE = re.compile("Why: |export: the exporter (does not know|cannot write)")
# What torch.export says of a length that became constant; of a float, in the last three ways.
_MADE_STATIC = re.compile(
    "inferred a static shape|your code specialized it|user-specified ranges"
    "|inputs to control flow|int_truediv|IntTrueDiv"
)
_COLOURS = re.compile(r"\x1b\[[0-9;]*m|\[\d+m")


class ExporterError(RuntimeError):
    """torch's exporter failed on the model.

    known: Whether the text says why, in other words than torch's.
    """

    def __init__(
        self,
        error: Exception,
        exporter: str,
        inputs: Inputs,
        opset: int,
        recorded: Recorded,
        dynamic: Sequence[Axis] = (),
    ) -> None:
        """dynamic: The axes of the inputs that were to be dynamic."""
        self._error, self._recorded = error, recorded
        said = _sentences(error, exporter, inputs, opset, recorded, dynamic)
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


def with_place(refusal: BaseException, error: BaseException, recorded: Recorded) -> BaseException:
    """The refusal of an attribute with the line of the model; another error is returned as it is.

    error: The one that torch's exporter raised.
    """
    place = _place(_chain(error, recorded), recorded)
    if not isinstance(refusal, FollowsLengthError) or place is None:
        return refusal
    return refusal.at(f" at {place}")


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
    error: Exception,
    exporter: str,
    inputs: Inputs,
    opset: int,
    recorded: Recorded,
    dynamic: Sequence[Axis],
) -> Iterator[str]:
    chain = _chain(error, recorded)
    said = plain(" ".join(f"{type(item).__name__}: {item}" for item in chain))
    if recorded.failed is not None:
        said += f" while it writes {recorded.failed[0]}"
    unknown = causes.UNKNOWN_OPERATOR.search(said)
    if unknown:
        name = _called(chain) or next(filter(None, unknown.groups())).replace(".", "::", 1)
        name = name.partition(".")[0]
        yield causes.unknown_operator(name, opset, unknown.group(), said, _place(chain, recorded))
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
    attribute = _frozen_attribute(said, recorded)
    if attribute is not None:
        yield f"Why: {follows_a_length(*attribute)}"
        yield f"torch says: {first_line(root)}."
        return
    cause, instead = _cause(chain, said)
    written = f" (while it writes {recorded.failed[0]})" if recorded.failed is not None else ""
    yield f"Why: {cause}." if cause else f"torch says{written}: {first_line(root)}."
    multiple = multiples.advice(said, recorded, dynamic)
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


def _cause(chain: list[BaseException], said: str) -> tuple[str, str]:
    if any(map(_asserted_by_model, chain)):
        return (
            "an assert of the model fails while it is exported; the lengths of the example or "
            "dynamic_axes do not fit it",
            'a multiple in dynamic_axes ("32*h") where lengths have to be multiples',
        )
    return causes.explained(said)


def _frozen_attribute(said: str, recorded: Recorded) -> tuple[str, str] | None:
    """Operator and name of an attribute that was given a dynamic length, if the export failed
    because torch.export then made that length constant."""
    if _MADE_STATIC.search(said):
        for condition in recorded.conditions:
            if condition.attribute is not None:
                operator = condition.attribute.operator.replace("::", ".")
                return operator, condition.attribute.name
    return None


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
    """What forward calls, where torch.export made other operators of it: "aten::hypot"."""
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


def first_line(error: BaseException) -> str:
    lines = [line.strip() for line in plain(str(error)).splitlines() if line.strip()]
    line = lines[0] if lines else type(error).__name__
    if line.endswith(":") and len(lines) > 1:  # it announces what is wrong
        line = f"{line} {lines[1].removeprefix('- ')}"
    line = re.split(r"\s*(?:\[Caused by the value|Please feel free to request)", line)[0]
    return (line if len(line) < 300 else line[:300] + " ...").rstrip(".!")


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
