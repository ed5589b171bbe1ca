"""Functions of torch's exporters that run the model, without a trace in its state."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

from myops._torch import module_state


@contextlib.contextmanager
def runs_restored(owner: Any, name: str, model: Any) -> Iterator[None]:
    """In this context, a function of torch that runs the model leaves its state as it was.

    What torch writes after it to the file, and its next attempt, then start from this state. If
    torch has no such name, nothing is replaced.
    """
    run = getattr(owner, name, None)

    def restoring(*args: Any, **kwargs: Any) -> Any:
        assert run is not None
        with module_state.restored(model):
            return run(*args, **kwargs)

    with mock.patch.object(owner, name, restoring) if run else contextlib.nullcontext():
        yield


def torchscript_utils() -> Any:
    """The module of the TorchScript exporter that runs scripted modules; None if torch has none."""
    from torch.onnx._internal import torchscript_exporter

    return getattr(torchscript_exporter, "utils", None)
