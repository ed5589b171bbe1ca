"""Silences the exporters, and collects their warnings about the result."""

from __future__ import annotations

import contextlib
import io
import logging
import re
import sys
import warnings
from collections.abc import Iterator
from unittest import mock

_FAMILIES = ("torch", "onnxscript", "onnx_ir", "onnx")  # of loggers

# Messages that do not concern the results: about the exporters' own code, about the opset (which
# the matrix shows), about names.
_OWN_MESSAGES = re.compile(
    "|".join(
        (
            "legacy TorchScript-based",
            "feature will be removed",
            "is deprecated",
            r"isinstance\(treespec",
            "will not be used, since",
            "Setting ONNX exporter to use operator set version",
            "version conver",
            "target version",
            "highest opset version supported",
            "dynamic_axes. is not recommended",
            "provided a dynamic_axes",
            "No names were found",
            "training mode",
            "[Cc]onstant folding",
            "shape inference",
            "input shape",
            "torchvision is not installed",
        )
    )
)


@contextlib.contextmanager
def captured_warnings() -> Iterator[list[str]]:
    """In this context, nothing is printed, warned or logged.

    Yields:
        The warnings that concern the result; complete after the context.
    """
    import torch

    said: list[str] = []
    handler = _Listener(said)
    loggers = [item for name, item in list(logging.root.manager.loggerDict.items())
               if isinstance(item, logging.Logger) and name.split(".")[0] in _FAMILIES
               and (item.handlers or name in _FAMILIES)]  # fmt: skip
    before = [(logger.handlers, logger.propagate) for logger in loggers]
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        stack.enter_context(contextlib.redirect_stderr(_Nowhere()))
        if hasattr(torch._C, "_jit_onnx_log"):  # writes from C++, past sys.stdout
            stack.enter_context(mock.patch.object(torch._C, "_jit_onnx_log"))
        caught = stack.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("always")
        stack.callback(torch.set_warn_always, torch.is_warn_always_enabled())
        torch.set_warn_always(True)  # C++ warns once a process otherwise
        for logger in loggers:
            logger.handlers, logger.propagate = [handler], False
        try:
            yield said
        finally:
            for logger, (handlers, propagate) in zip(loggers, before, strict=True):
                logger.handlers, logger.propagate = handlers, propagate
            for item in caught:
                if not issubclass(item.category, (DeprecationWarning, FutureWarning)):
                    _add(said, str(item.message))


class _Nowhere(io.StringIO):
    """Discards output to stderr, except that of a progress bar of rich."""

    def __init__(self) -> None:
        super().__init__()
        self.rich_proxied_file = getattr(sys.stderr, "rich_proxied_file", sys.stderr)


class _Listener(logging.Handler):
    def __init__(self, said: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._said = said

    def emit(self, record: logging.LogRecord) -> None:
        _add(self._said, record.getMessage())


def _add(said: list[str], message: str) -> None:
    if not _OWN_MESSAGES.search(message) and message not in said:
        said.append(message)
