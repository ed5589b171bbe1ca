"""Errors that several files raise."""

from __future__ import annotations


class SimplifyError(RuntimeError):
    """The tool lost a custom node or changed what the model computes.

    Example:
        >>> try:
        ...     smaller = myops.onnx.simplify("model.onnx").model
        ... except myops.onnx.SimplifyError:
        ...     smaller = onnx.load("model.onnx")
    """
