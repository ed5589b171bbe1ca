"""Loads a model, runs it, and examines what goes wrong."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from myops.ort._doctor import feeds, graph, nodes, op_mistakes, process
from myops.ort._doctor.graph import Provided
from myops.ort._doctor.messages import explain
from myops.ort._doctor.report import ERROR, WARNING, DoctorReport, Finding
from myops.ort._doctor.rules import MessageContext

_SECONDS = 60.0  # seconds for trying inputs
_DUMP_LIMIT = 1 << 30  # bytes; what ONNX Runtime made of a larger model is not written to disk


class SessionTrial:
    """Sessions with the libraries that load; what they tell goes into the report."""

    def __init__(
        self,
        report: DoctorReport,
        provided: Provided,
        libraries: list[str],
        providers: list[str],
        advance: Callable[[str], None],
    ) -> None:
        self.report = report
        self.provided = provided
        loads = {item.path for item in report.libraries if item.loads}
        self.libraries = [os.path.abspath(path) for path in libraries if path in loads]
        self.providers = providers
        self.advance = advance

    def session(self, path: str, **more: Any) -> process.ChildOutcome:
        """Loads a model in a process of its own; `more` goes into the request."""
        request = {
            "kind": "session", "model": path, "providers": self.providers, "optimise": True,
            "libraries": self.libraries, "dump": "", "feeds": [], "seconds": _SECONDS,
            "about": "loading the model", **more,
        }  # fmt: skip
        return process.run(request, None, self.advance)

    def load(
        self, proto: onnx.ModelProto, path: str, folder: Path, invention: feeds.Invention | None
    ) -> process.ChildOutcome:
        """Loads the model, runs it when there are inputs, and adds findings on what happens.

        Args:
            folder: A folder for files that are needed on the way.
        """
        fed = []
        for number, feed in enumerate(invention.feeds if invention else []):
            fed.append(str(folder / f"feed{number}.npz"))
            _save(fed[-1], feed)
        weights = sum(self.report.model["weights"].values()) if self.report.model else 0
        dump = str(folder / "optimised.onnx")
        small = os.path.getsize(path) + weights < _DUMP_LIMIT
        outcome = self.session(path, dump=dump if small else "", feeds=fed)
        loaded, ran = outcome.last("loaded"), outcome.last("ran")
        # Of several failures, that of the first inputs, which are the most usual ones.
        failed = None if ran else outcome.first("failed")
        if invention and ran:
            self._fed(invention.feeds[ran["feed"]], invention.invented)
        unfed = outcome.last("not fed")
        if unfed:
            self.report.add(Finding(
                "not-run", WARNING, "The model was not run.",
                f"Its tensors cannot be given from Python: {unfed['error']}.",
                "Install a newer onnxruntime, or give arrays of the type that the model states.",
            ))  # fmt: skip
        if loaded:
            with self.report.careful("what runs"):
                self._what_runs(proto, loaded, dump)
        if outcome.death:
            self._crashed(outcome)
        elif failed:
            try:
                self._failed(failed, MessageContext(proto, self.provided), proto, folder, invention)
            except Exception:  # the model is damaged; the message must not be lost
                self.report.add(explain(failed["error"], MessageContext(None, self.provided)))
        return outcome

    def _what_runs(self, proto: onnx.ModelProto, loaded: dict[str, Any], dump: str) -> None:
        optimised = None
        if os.path.isfile(dump):
            try:
                optimised = onnx.load(dump, load_external_data=False)
            except Exception:  # optional: without it the nodes stay "unknown"
                optimised = None
        assigned = loaded["assigned"]
        self.report.nodes = nodes.examine(proto, optimised, assigned)
        self.report.providers = nodes.counts(assigned)
        self.report.add(*nodes.fallbacks(self.report.nodes, self.provided))
        available = self.report.environment["providers"]
        self.report.add(*nodes.providers(proto, self.providers, loaded, available))

    def _crashed(self, outcome: process.ChildOutcome) -> None:
        doing = {"register": "registering a library", "load": "loading the model",
                 "run": "running the model", "loaded": "running the model"}  # fmt: skip
        self.report.add(Finding(
            "crash", ERROR, f"ONNX Runtime crashes while {doing.get(outcome.stage, 'it works')}.",
            f"It causes {outcome.death}. (It happened in a process of its own.)",
            "Try it without the custom-op libraries, one by one, and with another onnxruntime, to "
            "learn whose fault it is.", outcome.stderr.strip()[-500:],
        ))  # fmt: skip

    def _failed(
        self,
        failed: dict[str, Any],
        context: MessageContext,
        proto: onnx.ModelProto,
        folder: Path,
        invention: feeds.Invention | None,
    ) -> None:
        finding = explain(failed["error"], context)
        feed = invention.feeds[0] if invention else None
        if failed["at"] == "run" and finding.code == "run-failed" and feed is not None:
            # Without optimisations the node has the name that it has in the file.
            path = self.report.model["path"] if self.report.model else ""
            again = self.session(
                path, optimise=False, feeds=[str(folder / "feed0.npz")],
                about="running again, to find the node",
            ).last("failed")  # fmt: skip
            if again and again["at"] == "run":
                finding = explain(again["error"], context)
            self._shapes(finding, proto, folder, feed)
        if (
            failed["at"] == "run"
            and invention
            and self._may_be_the_inputs(proto, finding, invention)
        ):
            finding = _not_the_models(finding, invention)
        same = [old for old in self.report.errors if old.code == finding.code]
        if same:
            same[0].message = same[0].message or finding.message
            return
        self.report.add(finding)

    def _fed(self, feed: dict[str, np.ndarray], invented: dict[str, str]) -> None:
        """Records the inputs with which the model ran."""
        self.report.inputs = {
            name: {"dtype": str(array.dtype), "shape": list(array.shape),
                   "invented": invented.get(name, "")}
            for name, array in feed.items()
        }  # fmt: skip

    def _may_be_the_inputs(
        self, proto: onnx.ModelProto, finding: Finding, invention: feeds.Invention
    ) -> bool:
        """Whether a failure may be the fault of what was made up."""
        if not invention.invented or finding.code == "input-wrong":  # the invented inputs fit
            return False
        failing = [place for place in graph.places(proto) if place.label in finding.nodes]
        if len(failing) != 1 or failing[0].inside:
            return True
        return feeds.depends(proto, failing[0].node, invention.invented)

    def _shapes(
        self, finding: Finding, proto: onnx.ModelProto, folder: Path, feed: dict[str, np.ndarray]
    ) -> None:
        """Adds what arrived at the node that failed."""
        failing = [place for place in graph.places(proto) if place.label in finding.nodes]
        if len(failing) != 1 or failing[0].inside:
            return
        node = failing[0].node
        shapes = {name: [str(array.dtype), list(array.shape)] for name, array in feed.items()}
        for item in proto.graph.initializer:
            shapes[item.name] = [graph.dtype_name(item.data_type), list(item.dims)]
        shapes.update(self._arriving(proto, node, folder))
        known = [f"{name}: {shapes[name][0]}{shapes[name][1]}" for name in node.input
                 if name in shapes]  # fmt: skip
        if known:
            finding.why += f" What arrived: {', '.join(known)}."

    def _arriving(
        self,
        proto: onnx.ModelProto,
        node: onnx.NodeProto,
        folder: Path,
    ) -> dict[str, Any]:
        """dtype and shape of the node's inputs, found by running what is before it."""
        external = (t.data_location == onnx.TensorProto.EXTERNAL for t in proto.graph.initializer)
        part = feeds.arriving(proto, node)
        if part is None or any(external):  # the weights are beside another file
            return {}
        (folder / "arriving.onnx").write_bytes(part.SerializeToString())
        ran = self.session(
            str(folder / "arriving.onnx"), optimise=False, feeds=[str(folder / "feed0.npz")],
            about="finding out what arrives there",
        ).last("ran")  # fmt: skip
        return ran["outputs"] if ran else {}


def _not_the_models(finding: Finding, invention: feeds.Invention) -> Finding:
    """The failure of a run with made-up inputs: it says little about the model."""
    if finding.code == op_mistakes.CODE:  # no input justifies what the op does
        return finding
    shapes = "; ".join(f"{name}: {note}" for name, note in invention.invented.items())
    count = len(invention.feeds)
    tried = f"{count} sets of inputs were tried" if count > 1 else "One set of inputs was tried"
    return Finding(
        "not-run", WARNING, "The model does not run on invented inputs.",
        f"{tried}; invented were {shapes}. With the first: {finding.what} {finding.why} The model "
        "may be right and the inputs wrong.",
        "Say what the inputs are like: --shape NAME:1x3x320x320, --dim NAME=LENGTH, --input "
        "NAME=FILE.npy; in Python shapes=, dims=, inputs=.",
        finding.message, finding.nodes,
    )  # fmt: skip


def _save(path: str, feed: dict[str, np.ndarray]) -> None:
    arrays: dict[str, Any] = {
        # A .npy file has no name for types that NumPy does not have.
        name: array.view(f"u{array.dtype.itemsize}") if feeds.is_narrow(array) else array
        for name, array in feed.items()
    }
    np.savez(path, **arrays)
