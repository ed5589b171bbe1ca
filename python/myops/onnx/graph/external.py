"""Where external data lies, as a model file says."""

from __future__ import annotations

import re

import onnx


def check_place(tensor: onnx.TensorProto) -> None:
    """Refuses external data whose place in the file is not given in bytes.

    Raises:
        ValueError: The offset or the length is not a number, or is negative.
    """
    for item in tensor.external_data:
        if item.key in ("offset", "length") and not re.fullmatch("[0-9]*", item.value, re.ASCII):
            raise ValueError(
                f"weights of {tensor.name!r}: {item.key}: got {item.value!r}, "
                "expected a number of bytes; the file was damaged or written by a faulty tool"
            )
