"""Whether a value in a trace of torch's older exporter can be negative."""

from __future__ import annotations

import torch

# Nodes whose outputs are never negative.
_ALWAYS = ("Shape", "Size", "NonZero", "ArgMax", "ArgMin")
# Nodes that are not negative where these inputs are not.
_FIRST = ("Gather", "Slice", "Squeeze", "Unsqueeze", "Reshape", "Cast", "Identity", "Expand",
          "Transpose", "Flatten")  # fmt: skip
_ALL = ("Add", "Mul", "Div", "Max", "Concat", "Range")


def never_negative(item: object) -> bool:
    """Whether a number of a trace is a length or an index, or computed from them with no minus."""
    if isinstance(item, (int, float)):
        return item >= 0
    return isinstance(item, torch._C.Value) and _of_lengths(item, {})


def _of_lengths(value: torch._C.Value, known: dict[str, bool]) -> bool:
    name = value.debugName()
    if name not in known:
        known[name] = False  # of a circle, which there is none
        node = value.node()
        domain, _, kind = node.kind().partition("::")
        inputs = list(node.inputs())
        if domain != "onnx":
            return False
        if kind == "Constant" and "value" in node.attributeNames():
            known[name] = bool((node.t("value") >= 0).all())
        elif kind == "TopK":
            known[name] = list(node.outputs())[1].debugName() == name  # the indices
        elif kind in _ALWAYS:
            known[name] = True
        elif kind in _FIRST or kind in _ALL:
            inputs = inputs[:1] if kind in _FIRST else inputs
            known[name] = all(_of_lengths(one, known) for one in inputs)
    return known[name]
