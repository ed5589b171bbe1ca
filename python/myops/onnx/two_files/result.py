"""The results of a comparison of two files."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from myops.onnx.comparison.metrics import ArrayDifference
from myops.onnx.comparison.result import Value
from myops.onnx.two_files.meanings import CAUSES

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(eq=False)
class FileValue(Value):
    """A value of the first file and the value of the second with which it was compared.

    `name`, `node`, `depth`, `shape`, `dtype` and `expected` are of the first, `onnx_shape`,
    `onnx_dtype` and `got` of the second.

    Attributes:
        other: Its name in the second file.
        paired: How the two were paired: "same" (they compute the same from the same inputs),
            "place" (the same operator between paired values), "name", "numbers" (only their numbers
            are equal).
        where: The nodes around the body that it is in; () in the main graph.
        iterations: How many runs of the body were compared; 0 in the main graph.
        origin: Of a value that differs: "arises" (the nodes before it give something else from
            equal inputs) or "inherited" (they give the same; what they got differs). "" for others,
            and inside bodies.
        order: Its position in a run, for values in bodies.
    """

    other: str = ""
    paired: str = ""
    where: tuple[str, ...] = ()
    iterations: int = 0
    origin: str = ""
    order: tuple[float, ...] = ()

    @property
    def title(self) -> str:
        """The name in the first file, that in the second if it differs, and the body."""
        title = self.name if self.name == self.other else f"{self.name} | {self.other}"
        return f"{title} in {' > '.join(self.where)}" if self.where else title


@dataclass(eq=False)
class FirstFileMismatch:
    """The place where the difference starts.

    Attributes:
        cause: A key of `meanings.CAUSES`.
        value, other: The first value that differs, by its names in both files.
        nodes, other_nodes: The nodes between it and the values before it that agree.
        evidence: The reasons for this conclusion, in sentences.
        inputs: The values that these nodes read, by their names in the first file.
        alone: The difference if the nodes of the second get the inputs of the first.
    """

    cause: str
    value: str
    other: str
    nodes: list[str] = field(default_factory=list)
    other_nodes: list[str] = field(default_factory=list)
    evidence: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    alone: ArrayDifference | None = None
    reproduction: None = None  # as `FirstMismatch` has

    @property
    def path(self) -> str:
        """Its name in a plot."""
        return self.value

    @property
    def title(self) -> str:
        return repr(self.value) + (
            f", {self.other!r} in the second" if self.other != self.value else ""
        )

    def to_dict(self) -> dict[str, Any]:
        data = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)
                if item.name not in ("alone", "reproduction")}  # fmt: skip
        return data | {"alone": self.alone and dataclasses.asdict(self.alone)}


@dataclass(frozen=True)
class UnmatchedValue:
    """A value without a counterpart: its name, its operator, and in which file it is."""

    path: str
    kind: str
    reason: str


@dataclass(eq=False)
class FileReport:
    """The result of `myops.onnx.compare_files`.

    Attributes:
        passed: Whether the outputs agree, and inner values differ only where everything that is
            computed from them agrees.
        sides: What was compared: file and backend, twice.
        values: All values that were compared, in the order of the first file.
        outputs: The outputs of the unchanged files, if a backend rewrites models.
        first_mismatch: The place where the difference starts; None if there is none.
        begins: The result of the bisection: the first value at which the outputs begin to differ if
            the second file computes all values up to it and the first file the rest. None if the
            outputs agree.
        unmatched: Values without a counterpart.
        notes: Further remarks.
        inputs: dtype and shape of each input, and whether it was generated.
        versions: The versions of the packages that were used.
        command: The command that makes this report again; "" if no command made it.
    """

    passed: bool
    sides: tuple[str, str]
    values: Sequence[FileValue]
    outputs: Sequence[FileValue]
    first_mismatch: FirstFileMismatch | None
    begins: FirstFileMismatch | None
    unmatched: Sequence[UnmatchedValue]
    notes: Sequence[str]
    inputs: dict[str, dict[str, Any]]
    versions: dict[str, str]
    command: str = ""

    @property
    def blame(self) -> FirstFileMismatch | None:
        """The earlier name of `first_mismatch`."""
        return self.first_mismatch

    def to_dict(self) -> dict[str, Any]:
        """Everything except the arrays, for JSON."""
        first = self.first_mismatch and self.first_mismatch.to_dict()
        return {
            "passed": self.passed,
            "sides": list(self.sides),
            "first_mismatch": first,
            "blame": first,  # the earlier name
            "begins": self.begins and self.begins.to_dict(),
            "outputs": [_row(value) for value in self.outputs],
            "values": [_row(value) for value in self.values],
            "unmatched": [dataclasses.asdict(item) for item in self.unmatched],
            "notes": list(self.notes),
            "inputs": self.inputs,
            "versions": self.versions,
            "command": self.command,
        }

    def to_json(self) -> str:
        """The report as JSON; infinities and NaN are strings."""
        from myops.cli._console import _plain

        return json.dumps(_plain(self.to_dict()), indent=2, allow_nan=False)

    def print(self, console: Console | None = None, *, all_values: bool = False) -> None:
        """Prints a table in the terminal.

        Args:
            console: A `rich.console.Console`. Default: stdout.
            all_values: True: every value; False: of a long list, only the part around the
                difference.
        """
        from myops.onnx.two_files import terminal

        terminal.show(self, console, all_values)

    def _repr_html_(self) -> str:
        """The HTML that a notebook shows."""
        from myops.onnx.comparison import html, terminal

        return html.fragment(self, terminal.chosen(self.values, self.first_mismatch), self._words())

    def write_html(self, path: str | os.PathLike[str]) -> None:
        """Writes one self-contained file: table, plot along the depth, pictures of image-like
        values."""
        from myops.onnx.comparison import html

        with open(path, "w", encoding="utf-8") as file:
            file.write(html.render(self, self._words()))

    def _words(self) -> Any:
        from myops.onnx.comparison import html

        return html.Words(
            self.sides, ("first", "second"), ("first", "second"), "value",
            "Outputs of the untouched files", CAUSES,
        )  # fmt: skip


def _row(value: FileValue) -> dict[str, Any]:
    data = value.to_dict()
    for name in ("path", "call", "kind", "place", "fused", "order"):  # most are of PyTorch modules
        del data[name]
    data["other_shape"] = data.pop("onnx_shape")
    data["other_dtype"] = data.pop("onnx_dtype")
    return data
