"""Why onnx cannot convert a model to another opset, and what to do."""

from __future__ import annotations

import re

TORCHSCRIPT_OPSETS = (7, 20)  # that torch's exporter for TorchScript writes

# Where in onnx's sources an assertion failed says nothing to a user.
_ASSERTION = re.compile(r"^/\S+:\d+: \w+: Assertion `.*?` failed: (Warning: )?")
_NO_WAY_BACK = re.compile(r"No Adapter (From|To) Version \$?(\d+) for (\w+)")
_TOO_NEW = re.compile(r"No Previous Version of (\w+) exists")


def why(error: BaseException) -> str:
    """The error of onnx's version converter as a part of a sentence."""
    text = _ASSERTION.sub("", " ".join(str(error).split())).rstrip(".")
    if found := _NO_WAY_BACK.search(text):
        direction = "an earlier" if found[1] == "From" else "that"
        return f"onnx converts no {found[3]} of opset {found[2]} to {direction} one"
    if found := _TOO_NEW.search(text):
        return f"earlier opsets have no {found[1]}"
    return text


def advice(opset: int) -> str:
    """What to do about a model that cannot be converted to an opset."""
    first, last = TORCHSCRIPT_OPSETS
    if opset < first:
        return f"PyTorch's exporters write no opset before {first} either: keep the model's own."
    other = ', exporter="torchscript"' if opset <= last else ""
    return (
        "Where PyTorch's exporters write that opset, export the model with "
        f"opset_version={opset}{other}; else keep its own."
    )
