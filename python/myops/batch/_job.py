"""The data of a run's workers: the job, sessions, blocks of rows and tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from myops._text import reason
from myops.batch._plan import Shard
from myops.batch._recipe import Recipe
from myops.batch._store import WriteError


class Stopped(Exception):  # noqa: N818  (no error: somebody wants the run to end)
    """The run ends before the shard is done."""


@dataclass(frozen=True)
class Job:
    """The arguments of all workers of a run.

    model: Path of the model.
    libraries: Custom-op libraries that it needs.
    named_libraries: As for `myops.ort.session`.
    recipe: How rows become inputs.
    output: The folder, or a URL.
    format: "png" and other pictures, "bytes", "npy", "npz", "npz-parts" or "parquet".
    keep: Columns that go into the output as they are.
    threads: Of a call.
    """

    model: str
    libraries: tuple[str, ...]
    named_libraries: str
    recipe: Recipe
    output: str
    format: str
    keep: tuple[str, ...] = ()
    threads: int = 1


def make_session(
    model: str, libraries: Sequence[str], named_libraries: Any, threads: int = 1
) -> Any:
    """A session whose threads do not use cores while they wait.

    Raises:
        RuntimeError: ONNX Runtime does not load the model.
    """
    import onnxruntime

    from myops.ort._session import checked_onnxruntime, session

    checked_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors are raised
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Memory of a session would keep the size of the largest row that each thread has had.
    options.enable_cpu_mem_arena = False
    if threads > 1:  # threads that still wait for work would take the cores of the next session
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return session(
            model, session_options=options, libraries=libraries, named_libraries=named_libraries
        )
    except (ImportError, OSError, ValueError):
        raise
    except Exception as error:  # ONNX Runtime's own kinds have no common base
        raise RuntimeError(
            f"{model}: ONNX Runtime does not load it: {reason(error)} `myops doctor` explains why"
        ) from error


@dataclass
class Block:
    """Rows and their outputs: for each output an array with rows on axis 0, or a list."""

    rows: list[int]
    values: list[Any]


@dataclass
class ShardTask:
    """A shard in progress.

    shard: The shard.
    sink: Receives its outputs.
    failed: Row -> the reason why it has no output.
    names: Row -> its name.
    calls: (shapes, rows of a call) -> the number of such calls.
    """

    shard: Shard
    sink: Any
    failed: dict[int, str]
    names: dict[int, str] = field(default_factory=dict)
    calls: Counter[Any] = field(default_factory=Counter)

    def fail(self, row: int, error: BaseException) -> None:
        """Records that a row has no output."""
        self.failed[row] = why(error)

    def keep(self, block: Block) -> None:
        """Passes outputs to the sink; rows that it cannot encode fail."""
        try:
            self.sink.add(block)
        except WriteError:
            raise
        except Exception as error:
            for row in block.rows:
                self.fail(row, error)


def why(error: BaseException) -> str:
    """The message for a user about a row that failed."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}."
    return reason(" ".join(str(error).split()) or type(error).__name__)
