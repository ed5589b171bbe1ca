"""`explain`: what runs for each custom node of a model, and how long it takes."""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx

from myops import _given, _libraries, _recording
from myops._checked import checked
from myops._explain import Call, show, words
from myops._text import for_markup, printable
from myops.onnx.graph import files, scopes, structure

if TYPE_CHECKING:
    from rich.console import Console

KERNEL, BODY, NOT_RUN = "kernel", "function body", "not run"
_AT_ONCE = 500  # the number of nodes that a notebook shows
_CALLS = 3  # of a node that are printed; a loop makes thousands


@dataclass(frozen=True)
class NodeRun:
    """What ran for one custom node.

    Attributes:
        name: Its name in the file; a node without one gets one of its op and a number.
        op: Domain and type, such as "myops::Resize".
        runs: "kernel": a kernel of a library; "function body": the standard operators of the body
            the model carries; "not run": nothing, as for a constant or in a branch not taken.
        why: Why it was no kernel; "" where it was.
        ms: How long ONNX Runtime took for the node in milliseconds, all runs of a loop body
            together; None where it is not known, as for a function body.
        calls: What each run of the kernel did; empty for a library that is not built with myops.
    """

    name: str
    op: str
    runs: str
    why: str
    ms: float | None
    calls: list[Call]


@dataclass(frozen=True)
class ModelExplanation:
    """The result of `myops.ort.explain`; `print()` shows it, and so does a notebook.

    Attributes:
        nodes: The custom nodes, in the order of the file. After them those in functions of the
            model that ran in a kernel built with myops, by the names that ONNX Runtime gives them.
        ms: How long the run took, in milliseconds.
        standard_ms: Of it, standard operators, those of function bodies included.
        inputs: dtype and shape of each input, and what of it was invented.
        machine: CPU, cores, threads, and the version of ONNX Runtime.
    """

    nodes: list[NodeRun]
    ms: float
    standard_ms: float
    inputs: dict[str, dict[str, Any]]
    machine: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return dataclasses.asdict(self)

    def to_json(self) -> str:
        """The same as text."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def print(self, console: Console | None = None) -> None:
        """The nodes and what ran, in the terminal.

        Args:
            console: Where to, a `rich.console.Console`. Default: stdout.
        """
        from myops._terminal import Console as Terminal
        from myops._terminal import line

        console = console or Terminal()
        for name, value in self._facts():
            line(console, for_markup(f"{name:<8} {value}"))
        if not self.nodes:
            line(console, "The model has no custom node.")
        for node in self.nodes:
            style = {KERNEL: "green", BODY: "yellow", NOT_RUN: "dim"}[node.runs]
            took = "" if node.ms is None else f", {node.ms:.3f} ms"
            line(console)
            line(console, f"[bold]{for_markup(node.name)}[/] {for_markup(node.op)}: "
                 f"[{style}]{node.runs}[/]{took}")  # fmt: skip
            if node.why:
                line(console, f"  {for_markup(node.why)}")
            for call in node.calls[:_CALLS]:
                show(console, call)
            if more := _more(node):
                line(console, f"  [dim]{more}[/]")

    def _facts(self) -> list[tuple[str, str]]:
        rows = []
        for number, (name, item) in enumerate(self.inputs.items()):
            made = f"; invented: {item['invented']}" if item["invented"] else ""
            title = "" if number else "inputs"
            rows.append((title, f"{printable(name)} {item['dtype']}{item['shape']}{made}"))
        machine = self.machine
        threads = f"{machine['threads']} thread{'s' * (machine['threads'] > 1)}"
        rows.append(("on", f"{machine['cpu']}, {threads}, ONNX Runtime {machine['onnxruntime']}"))
        rows.append(("took", f"{self.ms:.3f} ms, standard operators {self.standard_ms:.3f} ms"))
        return rows

    def _repr_html_(self) -> str:
        """The representation in notebooks."""
        from myops import _pages

        return _pages.fragment("explain_model.html", found=self, facts=self._facts(),
                               words=words(), most=_AT_ONCE)  # fmt: skip

    def __str__(self) -> str:
        lines = [f"{name:<8} {value}" for name, value in self._facts()]
        for node in self.nodes:
            took = "" if node.ms is None else f", {node.ms:.3f} ms"
            lines.append(printable(f"{node.name} {node.op}: {node.runs}{took}"))
            lines += [f"  {printable(node.why)}"] if node.why else []
            lines += [f"  {call}" for call in node.calls[:_CALLS]]
            lines += [f"  {more}"] if (more := _more(node)) else []
        return "\n".join(lines)


@checked()
def explain(
    model: files.Model,
    *,
    inputs: Mapping[str, Any] | None = None,
    dims: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    threads: int = 1,
    libraries: Sequence[str | os.PathLike[str]] = (),
    myops_library: bool = True,
    progress: Callable[[str], None] | None = None,
) -> ModelExplanation:
    """Runs a model in ONNX Runtime, and says what ran for each custom node.

    The model is run twice, on the CPU. The report is about the second run, which reuses tables and
    memory of the first.

    Args:
        model: A path, the bytes of a file, or a ModelProto.
        inputs: Arrays, or paths of .npy files, by name. What is left out is invented, as by
            `myops.ort.doctor`.
        dims: Lengths of axes that the model leaves open, by name or as "INPUT:AXIS".
        shapes: Shapes of invented inputs.
        threads: How many threads the session has for one node.
        libraries: Custom-op libraries that the model needs besides those of op libraries.
        myops_library: False: without the libraries that myops knows, as an ONNX Runtime runs the
            model that has never heard of myops.
        progress: Called with what is done now.

    Returns:
        What ran for each node of a custom domain.

    Raises:
        ValueError: An argument makes no sense, or an input cannot be invented.
        FileNotFoundError: No such file or library.
        RuntimeError: The model does not load, or runs on no inputs that were tried.

    Example:
        >>> found = myops.ort.explain("upscale.onnx")
        >>> [(node.op, node.runs) for node in found.nodes]
        [('myops::Resize', 'kernel')]
        >>> found.nodes[0].calls[0].runtime
        'onnxruntime'
    """
    from myops.ort import _measuring, _narrow

    threads = _given.whole("explain: threads", threads, 1, _measuring.MOST_THREADS)
    say = progress or (lambda text: None)
    say("loading")
    source, proto, names = _named(model)
    title = os.fspath(model) if isinstance(model, (str, os.PathLike)) else "the model"
    with tempfile.TemporaryDirectory() as folder:
        session = _measuring.opened(
            title, source, threads, libraries,
            known=myops_library, profile=os.path.join(folder, "run"),
        )  # fmt: skip
        say("running")
        asked = (inputs or {}, dims or {}, shapes or {})
        sessions = {(title, threads): session}
        feed, shown = _measuring.fed({title: source}, sessions, threads, asked, "explain")
        with _recording.recorded() as lines:
            _narrow.bound(session, feed)()
        times = _times(json.loads(Path(session.end_profiling()).read_text("utf-8")))
    calls = [Call.of(line) for line in lines]
    bodies = _BodyReasons(myops_library, lambda path: _measuring.opened(
        title, source, threads, libraries, known=myops_library, optimised=path))  # fmt: skip
    nodes = [
        _node(name, node, proto, times.nodes, _calls_of(name, node, names, calls), bodies)
        for name, node in names.items()
    ]
    nodes += _in_functions(nodes, calls, times.nodes)
    custom = sum(node.ms or 0 for node in nodes)
    machine = {**_measuring.machine(), "threads": threads}
    return ModelExplanation(nodes, times.run, max(times.all - custom, 0.0), shown, machine)


def _named(model: files.Model) -> tuple[Any, onnx.ModelProto, dict[str, onnx.NodeProto]]:
    """What is loaded, the model without weights, and its custom nodes by name.

    ONNX Runtime and the kernels identify a node by its name, so nodes without a name, or with the
    name of another node, get a new name in a copy.
    """
    by_path = isinstance(model, (str, os.PathLike))
    proto = files.load(model, weights=not by_path)
    taken = [node.name for node in scopes.all_nodes(proto.graph.node)]
    custom = _custom(proto)
    if len({node.name for node in custom} - {""}) == len(custom) and all(
        taken.count(node.name) == 1 for node in custom
    ):
        return (model if by_path else proto), proto, {node.name: node for node in custom}
    copy = onnx.ModelProto()
    copy.CopyFrom(files.load(model))
    found: dict[str, onnx.NodeProto] = {}
    for number, node in enumerate(_custom(copy)):
        if not node.name or taken.count(node.name) != 1:
            node.name = _fresh(node.name or node.op_type, number, {*taken, *found})
        found[node.name] = node
    return copy, copy, found


def _fresh(stem: str, number: int, taken: set[str]) -> str:
    name = f"{stem}_{number}"
    while name in taken:
        name += "_"
    return name


def _custom(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    """The nodes of custom domains, those in branches and loop bodies too."""
    return [node for node in scopes.all_nodes(model.graph.node) if structure.is_custom(node.domain)]


@dataclass
class _Times:
    """In milliseconds: of a run, of its nodes by name, of all nodes."""

    run: float
    nodes: dict[str, float]
    all: float


def _times(events: Iterable[Mapping[str, Any]]) -> _Times:
    """Of the last run in ONNX Runtime's profile."""
    ending = "_kernel_time"
    events = list(events)
    runs = [event for event in events if event["name"] == "model_run"]
    last = runs[-1]
    begin, end = last["ts"], last["ts"] + last["dur"]
    found: dict[str, float] = {}
    inner = 0.0
    for event in events:
        name = event["name"]
        if event["cat"] != "Node" or not name.endswith(ending):
            continue
        if not begin <= event["ts"] <= end:
            continue
        ms = event["dur"] / 1000
        stem = name[: -len(ending)]
        found[stem] = found.get(stem, 0.0) + ms
        if event.get("args", {}).get("op_name") in ("If", "Loop", "Scan"):
            inner += ms  # its nodes have events of their own
    return _Times(last["dur"] / 1000, found, sum(found.values()) - inner)


def _is(name: str, ran: str) -> bool:
    """Whether ONNX Runtime calls the node so: of a branch that was chosen when the model was loaded
    the nodes get a prefix."""
    return ran == name or (ran.startswith("_if_") and ran.endswith(f"_branch_{name}"))


def _calls_of(
    name: str, node: onnx.NodeProto, names: Mapping[str, onnx.NodeProto], calls: Sequence[Call]
) -> list[Call]:
    """The calls of a node's kernel; of PyOps, which know no node, those of its op in order."""
    found = [call for call in calls if call.runtime == "onnxruntime" and _is(name, call.node)]
    info = _libraries.find_node(node.domain, node.op_type)
    if found or info is None:
        return found
    same = [item for item, other in names.items()
            if (other.domain, other.op_type) == (node.domain, node.op_type)]  # fmt: skip
    # The domain of the library that makes the call.
    domain = _libraries.OURS.domain if info.is_prototype else info.domain
    by_numpy = [call for call in calls if call.runtime == "numpy"
                and (call.domain, call.op) == (domain, info.name)]  # fmt: skip
    return [by_numpy[same.index(name)]] if len(by_numpy) == len(same) else []


def _node(
    name: str, node: onnx.NodeProto, proto: onnx.ModelProto, times: Mapping[str, float],
    calls: list[Call], why_body: Callable[[onnx.NodeProto], str],
) -> NodeRun:  # fmt: skip
    op = f"{node.domain}::{node.op_type}"
    took = [ms for ran, ms in times.items() if _is(name, ran)]
    if took or calls:
        return NodeRun(name, op, KERNEL, "", sum(took) if took else None, calls)
    bodies = {(function.domain, function.name) for function in proto.functions}
    why = why_body(node) if (node.domain, node.op_type) in bodies else ""
    if why:
        return NodeRun(name, op, BODY, why, None, [])
    return NodeRun(name, op, NOT_RUN, "It is in a branch that was not taken, nothing reads it, or "
                   "ONNX Runtime computed it when it loaded the model.", None, [])  # fmt: skip


def _in_functions(
    nodes: Iterable[NodeRun], calls: Iterable[Call], times: Mapping[str, float]
) -> list[NodeRun]:
    """The nodes that made the other calls: ONNX Runtime puts the nodes of a function in the place
    of the node that calls it, under names of its own."""
    known = {id(call) for node in nodes for call in node.calls}
    others: dict[tuple[str, str], list[Call]] = {}
    for call in calls:
        library = _libraries.find(call.domain)
        if id(call) in known or call.runtime != "onnxruntime" or library is None:
            continue
        op = f"{call.domain}::{library.ops[call.op].onnx_type}"
        others.setdefault((call.node, op), []).append(call)
    return [
        NodeRun(name or "(no name)", op, KERNEL, "", times.get(name) if name else None, found)
        for (name, op), found in others.items()
    ]


def _more(node: NodeRun) -> str:
    """What is said of the calls that are not printed."""
    count = len(node.calls) - _CALLS
    return f"{count} more call{'s' * (count > 1)}; to_json() has all of them" if count > 0 else ""


class _BodyReasons:
    """Why a node ran as its function body; "" for one that has a kernel and did not run."""

    def __init__(self, known: bool, load: Callable[[str], Any]) -> None:
        self._known, self._load = known, load
        self._kept: list[onnx.NodeProto] | None = None

    def __call__(self, node: onnx.NodeProto) -> str:
        library = _libraries.find(node.domain)
        if library is None:
            return f"No op library of the domain {node.domain!r} is installed or was given."
        if not self._known:
            return f"The library of the domain {node.domain!r} was left out."
        if library.ort_library is None:
            return f"The domain {node.domain!r} is that of prototypes, which have no kernel."
        if any(_is(node.name, kept.name) for kept in self.kept()):
            return ""
        return f"The library of the domain {node.domain!r} has no kernel for these types."

    def kept(self) -> list[onnx.NodeProto]:
        """The custom nodes of what ONNX Runtime made of the model."""
        if self._kept is None:
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "optimised.onnx")
                self._load(path)
                self._kept = _custom(onnx.load(path, load_external_data=False))
        return self._kept
