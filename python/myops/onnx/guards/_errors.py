"""What a check says."""

from __future__ import annotations


class ExportCheckError(ValueError):
    """A check of `myops.onnx.export` found the exported model wrong; no file was written.

    check: The name of the check, as `skip_checks` takes it.
    text: What it found.
    """

    def __init__(self, check: str, text: str) -> None:
        self.check, self.text = check, text
        super().__init__(
            f"export: {check}: {text} (No file was written. To export without this check: "
            f'skip_checks=["{check}"])'
        )


class ExportCheckWarning(UserWarning):
    """A check of `myops.onnx.export` could not be made, or only in part."""
