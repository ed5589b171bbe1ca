"""The results of `doctor`: findings in words, and the facts on which they are based."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from myops._text import printable

if TYPE_CHECKING:
    from rich.console import Console

ERROR, WARNING = "error", "warning"

# The verdicts, and the exit status of the command line for each.
EXIT_STATUS = {
    "healthy": 0,  # no model was given, and nothing is wrong
    "loads": 0,
    "runs": 0,
    "problem": 1,  # no model was given, and something is wrong
    "does not load": 1,
    "loads, but something is wrong": 1,
    "fails when it runs": 1,
    "not examined": 2,
}


@dataclass
class Finding:
    """One thing that is wrong.

    code: A name that stays the same, such as "library-no-entry-point".
    severity: "error": the model or library does not work. "warning": it works, but not as one may
        expect.
    what, why, fix: What happened, why, and what to do.
    message: The runtime's own words, where there are any.
    nodes: The nodes that it is about, as "name (module path)".
    """

    code: str
    severity: str
    what: str
    why: str = ""
    fix: str = ""
    message: str = ""
    nodes: list[str] = field(default_factory=list)


@dataclass
class LibraryFacts:
    """A custom-op library: what it is and what it provides."""

    path: str
    loads: bool = False
    api_version: int | None = None  # of ONNX Runtime, that it asks for
    domains: dict[str, dict[str, list[dict[str, Any]]]] = field(default_factory=dict)
    listed: bool = False  # whether `domains` could be found out


@dataclass
class NodeFacts:
    """What runs in place of a node of a custom domain, or of a node that calls a function."""

    name: str
    op: str
    module: str  # the PyTorch module path, where the model tells it
    runs: str  # "kernel", "function body", "optimised away", "unknown"
    provider: str = ""


@dataclass
class DoctorReport:
    """The result of `doctor`; `print()` shows it, and so does a notebook.

    verdict: One of "healthy", "loads", "runs", "problem", "does not load",
        "loads, but something is wrong", "fails when it runs", "not examined".
    summary: The verdict in a sentence.
    findings: Errors first.
    environment: Versions, CPU, providers.
    libraries: What was loaded beside the runtime.
    model: Facts from the file; None without a model.
    nodes: What runs in place of each node of a custom domain or with a function body.
    providers: How many nodes each execution provider got.
    inputs: What the model ran with, by name: dtype, shape, and what of it was invented.
    """

    verdict: str = "not examined"
    summary: str = ""
    findings: list[Finding] = field(default_factory=list)
    environment: dict[str, Any] = field(default_factory=dict)
    libraries: list[LibraryFacts] = field(default_factory=list)
    model: dict[str, Any] | None = None
    nodes: list[NodeFacts] = field(default_factory=list)
    providers: dict[str, int] = field(default_factory=dict)
    inputs: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def inputs_are_invented(self) -> bool:
        """Whether it ran with lengths or integers that nobody gave."""
        return any(item["invented"] for item in self.inputs.values())

    @property
    def exit_status(self) -> int:
        """0: it works. 1: something is wrong. 2: it could not be examined."""
        return EXIT_STATUS[self.verdict]

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == ERROR]

    @property
    def warnings(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == WARNING]

    def add(self, *findings: Finding) -> None:
        """Adds findings; one that equals an earlier one is merged with it."""
        for new in findings:
            for old in self.findings:
                if (old.code, old.what) == (new.code, new.what):
                    old.message = old.message or new.message
                    break
            else:
                self.findings.append(new)

    @contextlib.contextmanager
    def careful(self, what: str) -> Iterator[None]:
        """Continues the examination if a file is damaged in an unforeseen way."""
        try:
            yield
        except Exception as error:
            self.add(Finding(
                "model-garbled", WARNING, f"The model is garbled: {what} cannot be made out.",
                f"{type(error).__name__}: {error}",
                "The file is damaged, or was written by a tool with a fault: get it again.",
            ))  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """The report as data for JSON."""
        plain = dataclasses.asdict(self)
        plain["exit_status"] = self.exit_status
        return plain

    def print(self, console: Console | None = None) -> None:
        """The verdict, the findings and the facts, in the terminal.

        Args:
            console: Where to, a `rich.console.Console`. Default: stdout.
        """
        from myops._terminal import Console as Terminal
        from myops.ort._doctor import terminal

        terminal.show(self, console or Terminal())

    def _repr_html_(self) -> str:
        """The representation in notebooks."""
        from myops.ort._doctor import terminal

        return terminal.fragment(self)

    def __str__(self) -> str:
        lines = [self.summary]
        for finding in self.findings:
            lines += ["", f"{finding.severity} [{finding.code}]: {finding.what}"]
            lines += [f"  why: {finding.why}"] if finding.why else []
            lines += [f"  do:  {finding.fix}"] if finding.fix else []
            lines += [f"  node: {node}" for node in finding.nodes]
            lines += [f"  ONNX Runtime: {finding.message}"] if finding.message else []
        return "\n".join(map(printable, lines))
