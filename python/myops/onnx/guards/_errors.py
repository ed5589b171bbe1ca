"""The error and the warning of the checks."""

from __future__ import annotations

import re

_ADDRESS = re.compile(r"<(\S+) object at 0x[0-9a-f]+>")
_HINT = re.compile(r"\.?\s*(Hint:|To fix this|For more information).*", re.DOTALL)


class ExportCheckError(ValueError):
    """A check of `myops.onnx.export` found the exported model wrong; no file was written.

    check: The name of the check, as in `skip_checks`.
    text: What it found.
    elsewhere: Whether the other exporter may do: nothing in the model's way of computing is wrong.

    Example:
        >>> class Frozen(torch.nn.Module):
        ...     def forward(self, x, factor):
        ...         return x * factor.item()
        >>> try:
        ...     myops.onnx.export(Frozen(), (torch.rand(2), torch.tensor(2.0)), dynamo=False)
        ... except myops.onnx.ExportCheckError as error:
        ...     print(error.check)
        frozen_input
    """

    def __init__(self, check: str, text: str, elsewhere: bool = False) -> None:
        self.check, self.text, self.elsewhere = check, text, elsewhere
        super().__init__(
            f"export: {check}: {text} (No file was written. To export without this check: "
            f'skip_checks=["{check}"])'
        )


class ExportCheckWarning(UserWarning):
    """A check of `myops.onnx.export` could not be made, or only a part of it.

    Example:
        >>> class Noise(torch.nn.Module):
        ...     def forward(self, x):
        ...         return x + torch.rand_like(x)
        >>> import warnings
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always", myops.onnx.ExportCheckWarning)
        ...     model = myops.onnx.export(Noise(), torch.rand(3), dynamo=False)
        >>> any(item.category is myops.onnx.ExportCheckWarning for item in caught)
        True
    """


def said(error: BaseException) -> str:
    """The first line of an error, without addresses and torch's hints for its developers."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    line = _HINT.sub("", lines[0]) if lines else ""
    return _ADDRESS.sub(r"\1", line).rstrip(".") or type(error).__name__
