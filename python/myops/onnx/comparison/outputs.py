"""Which output of the file belongs to which output of the PyTorch model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from myops.onnx.comparison.graph import Graph
from myops.onnx.comparison.metrics import Tolerance
from myops.onnx.comparison.pairing import Pair, agree, pair_up
from myops.onnx.comparison.torch_side import Recording, Tensor

Values = Mapping[str, Any]


@dataclass
class Outputs:
    """The outputs of both sides.

    Attributes:
        pairs: Those that belong together.
        unpaired: Sentences about those without a counterpart, which make a comparison fail.
        notes: Sentences about those that are no tensors.
    """

    pairs: list[Pair]
    unpaired: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def pair_outputs(graph: Graph, run: Recording, values: Values, tolerance: Tolerance) -> Outputs:
    """Pairs outputs by position if both sides have equally many; else by name, then by value."""
    names, root = graph.outputs, run.calls[0]
    if len(names) == len(root.outputs):
        chosen = list(zip(names, root.outputs, strict=True))
    elif len(names) == len(run.results):  # numbers, too, are outputs of a file
        chosen = list(zip(names, run.results, strict=True))
    else:
        chosen = _by_name_or_value(names, run, values, tolerance)
    found = Outputs(
        [
            Pair(name, tensor, "", 0, root.kind, "output", tensor.place)
            for name, tensor in chosen
            if isinstance(values.get(name), np.ndarray)
        ]
    )
    absent = [name for name in dict.fromkeys(names) if isinstance(values.get(name), str)]
    found.notes = [f"The output {name!r} was not compared: it is {values[name]}."
                   for name in absent]  # fmt: skip
    paired = {name for name, _ in chosen}
    known = {tensor.counterpart for _, tensor in chosen}
    left = [name for name in dict.fromkeys(names) if name not in paired and name not in absent]
    found.unpaired = [
        f"The file has the output {name!r} ({_of_array(values.get(name))}), which belongs to no "
        "output of the PyTorch model."
        for name in left
    ]
    if not absent:  # a sequence may hold any number of the tensors
        found.unpaired += [
            f"The PyTorch model has the output {tensor.place or 'of forward'} "
            f"({_of_tensor(tensor)}), which belongs to no output of the file."
            for tensor in root.outputs
            if tensor.counterpart not in known
        ]
    return found


def refuse_none(graph: Graph, run: Recording, values: Values) -> None:
    """Raises the ValueError for outputs of which none can be compared."""
    theirs = ", ".join(f"{name!r} ({_of_array(values.get(name))})" for name in graph.outputs)
    ours = ", ".join(map(_of_tensor, run.calls[0].outputs))
    raise ValueError(
        "compare: the outputs could not be compared: got a file with the outputs "
        f"{theirs or 'none'}, expected those of the PyTorch model: {ours or 'no tensor'}. Give the "
        "file that was exported from this model"
    )


def _by_name_or_value(
    names: Sequence[str], run: Recording, values: Values, tolerance: Tolerance
) -> list[tuple[str, Tensor]]:
    tensors = list(run.calls[0].outputs)
    keys = [_key(tensor.place) for tensor in tensors]
    chosen = [(name, tensors[keys.index(name)]) for name in dict.fromkeys(names)
              if keys.count(name) == 1]  # fmt: skip
    named = {name for name, _ in chosen}
    used = {tensor.counterpart for _, tensor in chosen}
    left = [name for name in names if name not in named]
    rest = [tensor for tensor in tensors if tensor.counterpart not in used]
    chosen += pair_up(left, rest, values, tolerance)
    named = {name for name, _ in chosen}
    numbers = [item for item in run.results if item.number]
    for name in [name for name in left if name not in named]:
        array = values.get(name)
        for item in numbers:
            if isinstance(array, np.ndarray) and agree(item, array, tolerance):
                chosen.append((name, item))
                numbers.remove(item)
                break
    return chosen


def _key(place: str) -> str:
    """The last key of a place: that of "[0]['box']" is "box"."""
    found = re.search(r"(?:\['([^']+)'\]|\.(\w+))$", place)
    return (found[1] or found[2]) if found else ""


def _of_array(array: Any) -> str:
    return f"{array.dtype}{list(array.shape)}" if isinstance(array, np.ndarray) else "no tensor"


def _of_tensor(tensor: Tensor) -> str:
    return f"{tensor.dtype}{list(tensor.array.shape)}"
