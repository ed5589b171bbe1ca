"""Buffers to which forward assigns a tensor of another shape, as to a cache that grows.

torch.export records such an assignment as a copy into the buffer at the end of the program, and
fails when it decomposes the program, because the tensor does not fit. A file keeps nothing from run
to run, so the copy can be left out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch


@contextlib.contextmanager
def not_written() -> Iterator[None]:
    """In this context, torch.export.export leaves out what does not fit into its buffer."""
    export = torch.export.export

    def exporting(*args: Any, **kwargs: Any) -> Any:
        program = export(*args, **kwargs)
        _leave_out(program)
        return program

    with mock.patch.object(torch.export, "export", exporting):
        yield


def _leave_out(program: torch.export.ExportedProgram) -> None:
    writes = [
        node
        for node in program.graph.nodes
        if node.target is torch.ops.aten.copy_.default and not node.users and not _fits(node)
    ]
    for node in writes:
        program.graph.erase_node(node)
    if writes:
        program.graph_module.recompile()


def _fits(node: torch.fx.Node) -> bool:
    """Whether copy_ can write its tensor; forward's own calls can, or forward would fail."""
    shapes = []
    for argument in node.args[:2]:
        value = argument.meta.get("val") if isinstance(argument, torch.fx.Node) else None
        if not isinstance(value, torch.Tensor):
            return True
        shapes.append(value.shape)
    into, tensor = shapes
    pairs = zip(reversed(into), reversed(tensor), strict=False)
    return len(tensor) <= len(into) and all(
        not (type(length) is type(other) is int) or other in (1, length) for length, other in pairs
    )
