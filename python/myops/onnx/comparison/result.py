"""The results of a comparison."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

import myops
from myops.onnx.comparison.metrics import ArrayDifference

if TYPE_CHECKING:
    import onnx
    from rich.console import Console


@dataclass(eq=False)
class Value:
    """A value of the graph and the tensor of PyTorch with which it was compared.

    Attributes:
        path, call, kind: The module's name in named_modules(), the number of the call (the first
            is 0), its class.
        role, place: "output" or "input" of the module, and which one.
        fused: Path of a module that the exporter put into the same node; the value is its output.
        name, node, depth: The value in the graph, the node that makes it, and the node's place.
        shape, dtype: PyTorch's. onnx_shape, onnx_dtype: ONNX Runtime's.
        difference: None if the shapes differ.
        status: "ok"; "order": only a choice among equal values; "absorbed": it differs, but
            everything that is computed from it agrees (an exporter moved a computation to another
            module, or the difference has no effect for these inputs); "fail".
        detail: The reason, as text.
        expected, got: The arrays.
        transposed: Whether the elements agree if the axes are put in another order.
    """

    path: str
    call: int
    kind: str
    role: str
    place: str
    fused: str
    name: str
    node: str
    depth: int
    shape: tuple[int, ...]
    dtype: str
    onnx_shape: tuple[int, ...]
    onnx_dtype: str
    difference: ArrayDifference | None
    status: str
    detail: str
    expected: np.ndarray = field(repr=False)
    got: np.ndarray = field(repr=False)
    transposed: bool = False

    @property
    def title(self) -> str:
        """ "layer1.0.conv", with call, place and "input" where they matter."""
        title = self.path or "the model"
        title += f" (call {self.call})" if self.call else ""
        title += f" {self.role}" if self.role == "input" or not self.path else ""
        title += f" {self.place}" if self.place else ""
        return title + (f" with {self.fused}" if self.fused else "")

    def to_dict(self) -> dict[str, Any]:
        skipped = ("expected", "got", "difference")
        data = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)
                if f.name not in skipped}  # fmt: skip
        return data | {"difference": self.difference and dataclasses.asdict(self.difference)}


@dataclass(eq=False)
class FirstMismatch:
    """The place where the difference starts.

    Attributes:
        cause: "node": one node is wrong; "nodes": one of several; "kernel": ONNX Runtime's result
            of a node differs from onnx.reference's; "rounding": no module is wrong, small
            differences add up; "tie": a node had to choose among equal values; "stops": ONNX
            Runtime stops at a node; "optimiser": only ONNX Runtime's optimised model differs.
        path, call, kind: The first module whose inputs agree and whose outputs do not; "" is
            the forward of the model itself.
        fused: Path of a module in the same node.
        value: Name of the first value that differs.
        nodes: The nodes that may be wrong; a single one for "node" and "kernel".
        suspects: The nodes between the last values that agree and the first that does not.
        evidence: The reasons for this conclusion, in sentences.
        inputs: Names of the values that the suspects read; they agree.
        alone: The difference if only these nodes run, on PyTorch's inputs.
        libraries: Other custom-op libraries that were loaded.
        reproduction: The folder with submodel, inputs and script, if one was written.
    """

    cause: str
    path: str
    call: int
    kind: str
    value: str
    nodes: list[str]
    suspects: list[str]
    evidence: list[str]
    fused: str = ""
    inputs: list[str] = field(default_factory=list)
    alone: ArrayDifference | None = None
    libraries: list[str] = field(default_factory=list)
    reproduction: str | None = None
    submodel: onnx.ModelProto | None = field(default=None, repr=False)
    arrays: dict[str, np.ndarray] = field(default_factory=dict, repr=False)
    expected: np.ndarray | None = field(default=None, repr=False)

    @property
    def title(self) -> str:
        what = f"{self.path!r}" if self.path else "the forward of the model itself"
        call = f", call {self.call}" if self.call else ""
        fused = f", in one node with {self.fused!r}" if self.fused else ""
        return f"{what} ({self.kind}{call}){fused}"

    def to_dict(self) -> dict[str, Any]:
        skipped = ("submodel", "arrays", "expected", "alone")
        data = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)
                if f.name not in skipped}  # fmt: skip
        return data | {"alone": self.alone and dataclasses.asdict(self.alone)}


Blame = FirstMismatch  # the earlier name


@dataclass(eq=False)
class Report:
    """The result of `myops.onnx.compare`.

    Attributes:
        passed: Whether all outputs agree, also those of the optimised model, none is without a
            counterpart, and no difference starts at an inner value.
        values: All values that were compared, in the order of the graph.
        outputs: The outputs of the model as ONNX Runtime optimises it.
        first_mismatch: The place where the difference starts; None if there is none.
        unmatched: Calls of modules without a value in the graph: path, call, kind, reason.
        notes: Further remarks.
        versions: The versions of the packages that were used.
        command: The command that makes this report again; "" if no command made it.
        unpaired: Sentences about outputs of the file or of the PyTorch model that have no
            counterpart on the other side.
    """

    passed: bool
    values: Sequence[Value]
    outputs: Sequence[Value]
    first_mismatch: FirstMismatch | None
    unmatched: Sequence[Any]
    notes: Sequence[str]
    versions: dict[str, str]
    command: str = ""
    unpaired: Sequence[str] = ()

    @property
    def blame(self) -> FirstMismatch | None:
        """The earlier name of `first_mismatch`."""
        return self.first_mismatch

    def to_dict(self) -> dict[str, Any]:
        """Everything except the arrays, for JSON."""
        first = self.first_mismatch and self.first_mismatch.to_dict()
        return {
            "passed": self.passed,
            "first_mismatch": first,
            "blame": first,  # the earlier name
            "outputs": [value.to_dict() for value in self.outputs],
            "values": [value.to_dict() for value in self.values],
            "unmatched": [dataclasses.asdict(item) for item in self.unmatched],
            "unpaired": list(self.unpaired),
            "notes": list(self.notes),
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
        from myops.onnx.comparison import terminal

        terminal.show(self, console, all_values)

    def _repr_html_(self) -> str:
        """The HTML that a notebook shows."""
        from myops.onnx.comparison import html, terminal

        return html.fragment(
            self, terminal.chosen(terminal.distinct(self.values), self.first_mismatch)
        )

    def write_html(self, path: str | os.PathLike[str]) -> None:
        """Writes one self-contained file: table, plot along the depth, pictures of image-like
        values."""
        from myops.onnx.comparison import html

        with open(path, "w", encoding="utf-8") as file:
            file.write(html.render(self))

    def write_reproduction(self, folder: str | os.PathLike[str]) -> str:
        """Writes a folder that shows the difference without the model: submodel.onnx, the arrays,
        and script.py, which needs NumPy and ONNX Runtime only.

        Returns:
            The script.

        Raises:
            ValueError: There is no difference to reproduce.
        """
        from myops.onnx.comparison import reproduction

        return reproduction.write(self, folder)


def versions(*packages: str) -> dict[str, str]:
    """The versions of myops and of the packages that were used."""
    found = {"myops": myops.__version__}
    for name in packages:
        found[name] = str(importlib.import_module(name).__version__)
    return found
