"""Errors that several files raise."""

from __future__ import annotations


class SimplifyError(RuntimeError):
    """The tool lost a custom node or changed what the model computes."""
