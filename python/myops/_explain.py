"""`explain`: what calls of ops did, as objects."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from myops import _recording
from myops._text import byte_size, for_markup, printable

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class Step:
    """One choice of a kernel.

    Attributes:
        kernel: The name of what computes.
        axis: What it computes: an axis, an output, a part of the work.
        reason: Why it was chosen.
        pieces: How many pieces of work the pass had; steps that ran together have the same.
        memory: The most bytes of scratch memory that the call held during the pass.
        ms: How long the pass took, in milliseconds.
    """

    kernel: str
    axis: str
    reason: str
    pieces: int
    memory: int
    ms: float


@dataclass(frozen=True)
class Call:
    """What one call of an op did.

    Attributes:
        op: The name of the op, such as "resize" or "resize_backward".
        domain: The ONNX domain of the library that made the call; "myops" for a prototype.
        runtime: "torch fast call", "torch" (through its dispatcher), "torch cuda", "numpy",
            "onnxruntime" or "cpp", a runtime of your own.
        node: The name of the node of a model, in ONNX Runtime.
        inputs: Name, dtype, shape and layout of each input that was given; of short lists such as
            scales the numbers too.
        outputs: The same of each output.
        attributes: Those that differ from their defaults.
        isa: The instruction set whose code the kernel ran; "" for a kernel that has no such choice.
        plan: What the kernel chose; empty for a kernel that reports nothing.
        threads: How many threads took part.
        pieces: How many pieces of work there were.
        memory: The most bytes of scratch memory at one time.
        ms: How long the call took, in milliseconds: checks, results and kernel.
        error: Why the call was refused; "" where it was not.
    """

    op: str
    domain: str
    runtime: str
    node: str
    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]]
    attributes: dict[str, Any]
    isa: str
    plan: list[Step]
    threads: int
    pieces: int
    memory: int
    ms: float
    error: str = ""

    @classmethod
    def of(cls, line: Mapping[str, Any]) -> Call:
        """From a line of MYOPS_VERBOSE=1, read as JSON."""
        known = {item.name for item in dataclasses.fields(cls)}
        values = {key: value for key, value in line.items() if key in known}
        return cls(**{**values, "plan": [Step(**step) for step in line["plan"]]})

    def __str__(self) -> str:
        """The call on one line."""
        words = [
            f"{self.op}: {', '.join(map(_tensor, self.inputs)) or 'no inputs'}",
            f"-> {', '.join(map(_tensor, self.outputs)) or 'refused'}",
            f"[{', '.join(self.facts())}]",
        ]
        return " ".join(words)

    def facts(self) -> list[str]:
        """Runtime, instruction set, threads, pieces, memory and time in words."""
        found = [self.runtime, self.isa, _count(self.threads, "thread")]
        found += [_count(self.pieces, "piece")] if self.pieces else []
        found += [byte_size(self.memory) + " of scratch memory"] if self.memory else []
        return [fact for fact in [*found, f"{self.ms:.3f} ms"] if fact]


@dataclass(frozen=True)
class Explanation:
    """The result of `explain`; `print()` shows it, and so does a notebook.

    Attributes:
        calls: What each call of an op did, in the order in which they began.
        result: What the function returned.
    """

    calls: list[Call]
    result: Any = field(default=None, repr=False, compare=False)

    @property
    def call(self) -> Call:
        """The only call.

        Raises:
            ValueError: There was none, or several; see `calls`.
        """
        if len(self.calls) != 1:
            raise ValueError(
                f"explain: got {len(self.calls)} calls of ops "
                f"({', '.join(call.op for call in self.calls) or 'none'}), expected one; `calls` "
                "has all of them"
            )
        return self.calls[0]

    @property
    def op(self) -> str:
        """The op of the only call."""
        return self.call.op

    @property
    def inputs(self) -> list[dict[str, Any]]:
        """The inputs of the only call."""
        return self.call.inputs

    @property
    def plan(self) -> list[Step]:
        """What the kernel of the only call chose."""
        return self.call.plan

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON; without the result."""
        return {"calls": [dataclasses.asdict(call) for call in self.calls]}

    def to_json(self) -> str:
        """The same as text."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def print(self, console: Console | None = None) -> None:
        """The calls and their plans, in the terminal.

        Args:
            console: Where to, a `rich.console.Console`. Default: stdout.
        """
        from myops._terminal import Console as Terminal

        console = console or Terminal()
        if not self.calls:
            console.print(NO_CALL)
        for call in self.calls:
            show(console, call)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from myops import _pages

        return _pages.fragment(
            "explain.html", calls=self.calls, nothing=NO_CALL, words=words(), most=MOST
        )

    def __str__(self) -> str:
        lines = [] if self.calls else [NO_CALL]
        for call in self.calls:
            lines.append(str(call))
            lines += [f"  {step.kernel} ({step.axis}): {step.reason}" for step in call.plan]
            lines += [f"  error: {call.error}"] if call.error else []
        return "\n".join(map(printable, lines))


NO_CALL = "No call of an op of a myops library."
MOST = 50  # calls that a notebook shows


def explain(op: Callable[..., Any] | str, /, *args: Any, **kwargs: Any) -> Explanation:
    """Makes a call and reports what it did: kernels and why they ran, threads, memory, time.

    The same as MYOPS_VERBOSE=1 prints, as an object. Calls that other threads make meanwhile are
    recorded as well. A library that is loaded only during the call is not: import its package
    before.

    Args:
        op: What is called with the other arguments: an op (`myops.resize`, what `Library.define`
            returned), its name where it is one of ours, or any function that calls ops, such as
            `torch.autograd.grad`, a module, `session.run`.
        args: Of the call.
        kwargs: Of the call.

    Returns:
        The calls of ops, with what each did, and the result. The first call with new lengths makes
        tables that later ones reuse, so the times of a second call are more typical.

    Raises:
        ValueError: There is no op of that name.
        RuntimeError: Another `explain` runs. What the function raises comes through.

    Example:
        >>> found = myops.explain(myops.my_add, torch.ones(1000), torch.ones(1000))
        >>> found.op, found.inputs[0]["shape"], found.plan[-1].axis
        ('my_add', [1000], 'stores of c')
        >>> x = torch.ones(1, 3, 8, 8, requires_grad=True)
        >>> y = myops.interpolate(x, scale_factor=2.0)
        >>> [call.op for call in myops.explain(y.sum().backward).calls]
        ['resize_backward']
    """
    function = _named(op) if isinstance(op, str) else op
    with _recording.recorded() as lines:
        result = function(*args, **kwargs)
    return Explanation([Call.of(line) for line in lines], result)


def _named(name: str) -> Callable[..., Any]:
    import myops
    from myops import ops
    from myops._names import choose

    names = [name for module in ops.modules() for name in module.__all__]
    functions = [name for name in names if not isinstance(getattr(myops, name), type)]
    found: Callable[..., Any] = getattr(myops, choose(name, functions, "explain: op: myops has"))
    return found


def show(console: Console, call: Call) -> None:
    """One call in the terminal."""
    from rich.table import Table
    from rich.text import Text

    from myops._terminal import line

    tensors = ", ".join(map(_tensor, call.inputs)) or "no inputs"
    results = ", ".join(map(_tensor, call.outputs)) or "refused"
    line(console, f"[bold]{for_markup(call.op)}[/] {for_markup(f'{tensors} -> {results}')}")
    if call.attributes:
        line(console, for_markup("  " + _attributes(call.attributes)))
    line(console, f"  [dim]{for_markup(', '.join(call.facts()))}[/]")
    if call.error:
        line(console, f"  [red]error[/] {for_markup(call.error)}")
    if not call.plan:
        line(console, "  [dim]the kernel reports no choice[/]")
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("  kernel", "of", "because"):
        table.add_column(heading, overflow="fold")
    for heading in ("pieces", "memory", "ms"):
        table.add_column(heading, justify="right", no_wrap=True)
    for step in call.plan:
        table.add_row(
            *map(Text, map(printable, ("  " + step.kernel, step.axis, step.reason))),
            str(step.pieces) if step.pieces else "",
            byte_size(step.memory) if step.memory else "", f"{step.ms:.3f}",
        )  # fmt: skip
    console.print(table)


def words() -> dict[str, Any]:
    return {
        "tensors": lambda items: ", ".join(map(_tensor, items)),
        "attributes": _attributes,
        "size": byte_size,
    }


def _tensor(item: Mapping[str, Any]) -> str:
    """ "X float32 1x3x4x5 channels_last"."""
    shape = "x".join(map(str, item["shape"])) or "scalar"
    layout = "" if item["layout"] == "contiguous" else f" {item['layout']}"
    values = f" {item['values']}" if "values" in item else ""
    return f"{item['name']} {item['dtype']} {shape}{layout}{values}"


def _attributes(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in values.items())


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number != 1)}"
