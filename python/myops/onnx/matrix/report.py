"""The result of `opset_matrix`, and the forms in which it is shown and stored."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections import Counter
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from myops._names import choose
from myops._text import printable
from myops.onnx.graph import writing
from myops.onnx.matrix import layout
from myops.onnx.matrix.cells import EXPORTERS, MEANINGS, VERDICTS, Cell

if TYPE_CHECKING:
    from rich.console import Console

PACKAGES = ("torch", "onnx", "onnxscript", "onnxruntime")  # the packages that decide the verdicts
_STYLES = {"ok": "green", "opset changed": "yellow", "node lost": "yellow",
            "refused": "bright_black", "load error": "magenta", "wrong, with a warning": "red",
            "silently wrong": "bold white on red"}  # fmt: skip


def versions() -> dict[str, str]:
    """The installed versions of the packages that decide the verdicts."""
    return {name: metadata.version(name) for name in PACKAGES}


@dataclasses.dataclass
class Matrix:
    """The outcome of each row for each exporter and opset.

    `matrix.print()` shows it as tables, and so does a notebook if it is the last value of a cell.

    Attributes:
        cells: One for each row, exporter and opset.
        title: The subject.
        tolerance: As given to `opset_matrix`; None: by dtype.
        versions: Those of torch, onnx, onnxscript and onnxruntime during the measurement.
        notes: Markdown that is shown with the tables.
        command: The command that makes this matrix and its files again; "" if no command made it.
    """

    cells: list[Cell]
    title: str = ""
    tolerance: float | None = None
    versions: dict[str, str] = dataclasses.field(default_factory=versions)
    notes: str = ""
    command: str = ""

    @property
    def cases(self) -> list[str]:
        """The rows."""
        return list(dict.fromkeys(cell.case for cell in self.cells))

    @property
    def exporters(self) -> list[str]:
        return list(dict.fromkeys(cell.exporter for cell in self.cells))

    @property
    def opsets(self) -> list[int]:
        return sorted({cell.opset for cell in self.cells})

    def cell(self, case: str, exporter: str, opset: int) -> Cell:
        """The cell of a row in an exporter and an opset.

        Raises:
            ValueError: There is no such row, exporter or opset; the message lists similar names.
        """
        choose(case, self.cases, "the matrix has")
        choose(exporter, self.exporters, "the matrix has")
        for item in self.row(case, exporter):
            if item.opset == opset:
                return item
        raise ValueError(f"the matrix has no opset {opset}; it has {layout.ranges(self.opsets)}")

    def row(self, case: str, exporter: str) -> list[Cell]:
        """The cells of a row in an exporter, by opset."""
        found = [c for c in self.cells if (c.case, c.exporter) == (case, exporter)]
        return sorted(found, key=lambda item: item.opset)

    def rows(self, exporter: str) -> dict[str, list[Cell | None]]:
        """The rows of an exporter by name: a cell for each of `opsets`, None for a missing one."""
        rows: dict[str, list[Cell | None]] = {}
        for case in self.cases:
            found = {cell.opset: cell for cell in self.row(case, exporter)}
            if found:
                rows[case] = [found.get(opset) for opset in self.opsets]
        return rows

    def counts(self) -> dict[str, int]:
        """How many cells have each verdict."""
        found = Counter(cell.verdict for cell in self.cells)
        return {verdict: found[verdict] for verdict in VERDICTS}

    def summary(self) -> str:
        """The counts in a sentence."""
        said = [f"{count} {verdict}" for verdict, count in self.counts().items() if count]
        return f"{len(self.cells)} cells: " + ", ".join(said)

    def software(self) -> str:
        """The names and versions of what exported and ran the files, in a line."""
        return ", ".join(f"{name} {version}" for name, version in self.versions.items())

    def as_dict(self) -> dict[str, Any]:
        """The matrix as data for JSON."""
        return {
            "title": self.title,
            "versions": self.versions,
            "tolerance": self.tolerance,
            "notes": self.notes,
            "command": self.command,
            "counts": self.counts(),
            "cells": [cell.as_dict() for cell in self.cells],
        }

    def to_json(self) -> str:
        """The whole matrix as JSON, one cell per line; `Matrix.read` reads it."""
        head = self.as_dict()
        cells = [json.dumps(_finite(item), ensure_ascii=False) for item in head.pop("cells")]
        start = json.dumps(head, indent=1, ensure_ascii=False)[:-2]
        return start + ',\n "cells": [\n  ' + ",\n  ".join(cells) + "\n ]\n}\n"

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Matrix:
        """Reads a matrix from the JSON that `to_json` wrote.

        Raises:
            FileNotFoundError: There is no such file.
            ValueError: It contains something else.
        """
        try:
            found = json.loads(Path(path).read_text(encoding="utf-8"))
            cells = [Cell.from_dict(_infinite(item)) for item in found["cells"]]
            return cls(cells, found["title"], found["tolerance"], found["versions"],
                       found["notes"], found.get("command", ""))  # fmt: skip
        except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
            raise ValueError(f"{os.fspath(path)}: not an opset matrix in JSON: {error}") from error

    def to_markdown(self) -> str:
        """Tables, legend and reasons in Markdown."""
        from myops.onnx.matrix.markdown import render

        return render(self)

    def to_html(self) -> str:
        """One self-contained page: the notes, and every cell with the reason why it is not ok."""
        from myops.onnx.matrix.html import render

        return render(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the matrix in the format of the suffix: .md, .json or .html.

        Raises:
            ValueError: The suffix is another one.
        """
        forms = {".md": self.to_markdown, ".json": self.to_json, ".html": self.to_html}
        Path(path).write_text(forms[check_path(path)](), encoding="utf-8")

    def print(self, console: Console | None = None, *, details: bool = False) -> None:
        """Prints tables in the terminal.

        Args:
            console: A `rich.console.Console`. Default: stdout.
            details: Whether to print the reasons of cells that are not ok, too.
        """
        from myops._terminal import Console as Terminal

        console = console or Terminal()
        console.print(self)
        if details:
            console.print(Details(self))

    def _repr_html_(self) -> str:
        """The HTML that a notebook shows."""
        from myops.onnx.matrix.html import fragment

        return fragment(self)

    def __rich_console__(self, console: Any, options: Any) -> Any:
        from rich.text import Text

        symbols = _symbols(options)
        for exporter in self.exporters:
            yield Text.assemble((printable(exporter), "bold"), f": {EXPORTERS.get(exporter, '')}")
            yield _table(self, exporter, options.max_width, symbols)
        yield _legend(self, symbols)
        yield Text(printable(self.software()), "dim")


def _table(matrix: Matrix, exporter: str, width: int, symbols: dict[str, str]) -> Any:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    named = matrix.rows(exporter)
    rows = list(named.values())
    merged = layout.columns(rows)
    heads = [layout.ranges([matrix.opsets[place] for place in places]) for places in merged]
    label = max(len(case) for case in named)

    def shown(short: bool) -> list[list[str]]:
        return [[layout.text(layout.worst(row, places), symbols, short) for places in merged]
                for row in rows]  # fmt: skip

    texts = shown(short=False)
    widths = [max(len(head), *(len(row[i]) for row in texts)) for i, head in enumerate(heads)]
    if label + sum(widths) + 2 * len(heads) > width:
        texts = shown(short=True)  # only symbols
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("opset", overflow="fold")
    for head in heads:
        table.add_column(head, no_wrap=True)
    for case, row, said in zip(named, rows, texts, strict=True):
        cells = [layout.worst(row, places) for places in merged]
        styled = [Text(item, _STYLES[cell.verdict] if cell else "")
                  for item, cell in zip(said, cells, strict=True)]  # fmt: skip
        table.add_row(Text(printable(case)), *styled)
    return table


def _legend(matrix: Matrix, symbols: dict[str, str]) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 1))
    for verdict, count in matrix.counts().items():
        if count:
            style, meaning = _STYLES[verdict], f"[dim]{MEANINGS[verdict]}[/]"
            table.add_row(Text(symbols[verdict], style), str(count), Text(verdict, style), meaning)
    return table


@dataclasses.dataclass
class Details:
    """The reasons of the cells of a matrix that are not ok; `rich.print` shows them."""

    matrix: Matrix

    def __rich_console__(self, console: Any, options: Any) -> Any:
        from rich.padding import Padding
        from rich.text import Text

        def known(text: str) -> str:
            return printable(text.encode(options.encoding, "replace").decode(options.encoding))

        symbols = _symbols(options)
        for item in layout.reasons(self.matrix.cells):
            rows = item.cases if len(item.cases) <= 6 else item.cases[:4]
            more = len(item.cases) - len(rows)
            named = ", ".join(rows) + (f" and {more} more" if more else "")
            yield Text.assemble(
                (f"{symbols[item.verdict]} {item.verdict}", _STYLES[item.verdict]),
                f"  {item.exporter} {item.opsets}: {known(named)}",
            )
            yield Padding(Text(known(item.reason), "dim"), (0, 0, 0, 4), expand=False)


def _symbols(options: Any) -> dict[str, str]:
    utf = options.encoding.lower().startswith("utf")
    return layout.SYMBOLS if utf else layout.PLAIN_SYMBOLS


def check_path(path: str | os.PathLike[str]) -> str:
    """The suffix of a file to write; checked before anything is measured.

    Raises:
        ValueError: The suffix has no format.
        OSError: It cannot be written.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in (".html", ".md", ".json"):
        raise ValueError(f"{path}: got suffix {suffix!r}, expected .html, .md or .json")
    writing.refuse_unwritable(path, "the report")
    return suffix


def _finite(item: Any) -> Any:
    """Replaces infinity, which JSON does not have."""
    if isinstance(item, dict):
        return {key: _finite(value) for key, value in item.items()}
    if isinstance(item, list):
        return [_finite(value) for value in item]
    if isinstance(item, float):
        return float(f"{item:.3g}") if math.isfinite(item) else str(item)
    return item


def _infinite(item: dict[str, Any]) -> dict[str, Any]:
    found = {**item, "error": None if item.get("error") is None else float(item["error"])}
    if "others" in item:
        found["others"] = [_infinite(other) for other in item["others"]]
    return found
