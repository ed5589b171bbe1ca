"""The names of outputs that a caller gave: torch's exporters rename or drop those that do not fit,
each in its own way, so they are refused here."""

from __future__ import annotations

import re
from collections.abc import Sequence

import onnx

from myops.onnx.exporting.inputs import Inputs

# The message of torch's TorchScript exporter.
_TOO_MANY = re.compile(r"output names provided \((\d+)\) exceeded number of outputs \((\d+)\)")


def refuse(names: Sequence[str], inputs: Inputs) -> None:
    """Refuses names that the graph cannot have.

    Raises:
        ValueError: A name is empty, stands twice, or is that of an input.
    """
    for name in names:
        if not name:
            raise ValueError("export: output_names: got '', expected a name")
        if names.count(name) > 1:
            raise ValueError(f"export: output_names: got {name!r} twice, expected it once")
        if name in inputs.names:
            given = name in (inputs.given_names or ())
            rename = "" if given else f", or input_names that rename the input {name!r}"
            raise ValueError(
                f"export: output_names: got {name!r}, which is the name of an input; expected "
                f"another name{rename}: in a graph, a name stands for one value"
            )


def refuse_more(names: Sequence[str], model: onnx.ModelProto) -> None:
    """Refuses more names than the exported model has outputs.

    Raises:
        ValueError: There are more.
    """
    _refuse_count(len(names), len(model.graph.output))


def refuse_as_torch(error: RuntimeError) -> None:
    """The same where torch's exporter refuses them."""
    found = _TOO_MANY.search(str(error))
    if found:
        _refuse_count(int(found[1]), int(found[2]))


def _refuse_count(names: int, outputs: int) -> None:
    if names > outputs:
        raise ValueError(
            f"export: output_names: got {names} names, expected at most {outputs}, the number of "
            "tensors among the outputs"
        )
