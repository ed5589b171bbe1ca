"""What `myops.batch.run` returns."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Result:
    """What a run has done.

    Attributes:
        output: Where the outputs are.
        rows: Of the source.
        done: Rows with output, those of earlier runs too.
        failed: Rows without.
        before: Of both, how many an earlier run had settled.
        failures: The file that lists failed rows; "" where none failed.
        seconds: What this run took.
        engine, workers, threads: How it ran.
        rows_per_call: The most rows that one call of the model had.
        rows_in_memory: The most rows of the source that were in memory at once; 0 for engine ray.
        format: Of the outputs.

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
        """As the command's exit status: 0 all rows are done, 1 some failed, 3 none is done."""
        return 3 if not self.done else 1 if self.failed else 0

    @property
    def rows_per_second(self) -> float:
        """Of this run."""
        return (self.done + self.failed - self.before) / max(self.seconds, 1e-9)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "status": self.status, "rows_per_second": self.rows_per_second}
