"""The result of `myops.batch.run`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Result:
    """The result of a run.

    Attributes:
        output: The path of the outputs.
        rows: The number of rows of the source.
        done: The number of rows with output, including those of earlier runs.
        failed: The number of rows that failed, including those of earlier runs.
        before: How many of these two were done or failed in an earlier run.
        failures: The path of the list of failed rows; "" if none failed.
        seconds: The time of this run.
        engine, workers, threads: The settings with which it ran.
        rows_per_call: The most rows that one call of the model had.
        rows_in_memory: The most rows of the source that were in memory at once; 0 for engine ray.
        format: The format of the outputs.

    Example:
        >>> np.save("images.npy", np.ones((2, 3, 8, 8), np.float32))
        >>> scales = {"scales": [1, 1, 2, 2]}
        >>> result = myops.batch.run("upscale.onnx", "images.npy", "out", constants=scales)
        >>> (result.rows, result.status, result.format)
        (2, 0, 'npz')
    """

    output: str
    rows: int
    done: int
    failed: int
    before: int
    failures: str
    seconds: float
    engine: str
    workers: int
    threads: int
    rows_per_call: int
    rows_in_memory: int
    format: str

    @property
    def status(self) -> int:
        """The exit status of the command: 0 all rows are done, 1 some failed, 3 none is done."""
        return 3 if not self.done else 1 if self.failed else 0

    @property
    def rows_per_second(self) -> float:
        """The rows per second of this run."""
        return (self.done + self.failed - self.before) / max(self.seconds, 1e-9)

    def to_dict(self) -> dict[str, Any]:
        """The result as data for JSON."""
        return {**asdict(self), "status": self.status, "rows_per_second": self.rows_per_second}
