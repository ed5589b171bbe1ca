"""The order of the examination, and the verdict."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from myops import _libraries, _numpy_call
from myops.onnx.graph import calls, files
from myops.ort import _session
from myops.ort._doctor import (
    environment,
    feeds,
    graph,
    libraries,
    named,
    op_mistakes,
    ops,
    process,
    values,
    weights,
)
from myops.ort._doctor.graph import Provided
from myops.ort._doctor.messages import explain
from myops.ort._doctor.report import ERROR, WARNING, DoctorReport, Finding
from myops.ort._doctor.rules import MessageContext
from myops.ort._doctor.trial import SessionTrial


class Examination:
    def __init__(self, more: Sequence[Any], own: bool, providers: list[str], advance: Any) -> None:
        self.report = DoctorReport()
        self.provided = Provided()
        self.own = own
        self.paths = [os.fspath(path) for path in more]
        self.providers = providers
        self.advance = advance or (lambda text: None)

    def examine(self, model: files.Model | None, asked: feeds.Asked, run: bool) -> DoctorReport:
        proto = self._read(model)
        feed = None
        if proto is not None and run:
            feed = self._feed(proto, asked)
        self._environment()
        if not self.report.environment["onnxruntime_path"]:
            return self._judge("not examined", "Without ONNX Runtime nothing can be examined.")
        self._libraries(proto)
        if model is None:
            self._try_kernel()
            self._number_of_threads(ERROR)
            return self._judge_alone()
        self._number_of_threads(WARNING)
        with tempfile.TemporaryDirectory(prefix="myops-doctor-") as folder:
            path = self._path(model, Path(folder))
            if proto is None:
                return self._judge("does not load", "The model does not load")
            self._look(proto, path)
            self._named(path, None if path.startswith(folder) else Path(path).parent)
            return self._verdict(self._trial().load(proto, path, Path(folder), feed))

    def _trial(self) -> SessionTrial:
        return SessionTrial(self.report, self.provided, self.paths, self.providers, self.advance)

    # ---- Before anything is loaded.

    def _read(self, model: files.Model | None) -> onnx.ModelProto | None:
        if model is None:
            return None
        try:
            return files.load(model, weights=False)
        except calls.CallsError as error:
            self.report.add(Finding(
                "functions-endless", ERROR, "The model's functions cannot be replaced by nodes.",
                f"{error}.", "Export the model again, with functions that call each other less.",
            ))  # fmt: skip
            return None
        except ValueError as error:
            self.report.add(Finding(
                "model-broken", ERROR, f"{error}.".replace("..", "."),
                "ONNX Runtime cannot read it either.",
                "Get the file again, or export the model to ONNX: myops.onnx.export.",
            ))  # fmt: skip
            return None

    def _feed(self, proto: onnx.ModelProto, asked: feeds.Asked) -> feeds.Invention | None:
        try:
            return feeds.make(proto, asked)
        except feeds.CannotMakeError as error:
            advice = ("Give the input yourself: --input NAME=FILE.npy, --shape NAME:1x3x320x320; "
                      "in Python inputs=, shapes=.")  # fmt: skip
            if isinstance(error, feeds.OnlyTensorsError):
                advice = "Run a part that starts behind this input: `myops extract` cuts it out."
            self.report.add(Finding(
                "not-run", WARNING, "The model was not run.", f"{error}.".replace("..", "."),
                advice,
            ))  # fmt: skip
        return None

    def _environment(self) -> None:
        facts, outcome, found = environment.examine(self.advance)
        self.report.environment = facts
        self.report.add(*found)
        runtime = outcome.last("environment")
        self.provided.version = runtime["version"] if runtime else ""
        for domain, name, since in (outcome.last("schemas") or {"ops": []})["ops"]:
            known = self.provided.builtin.setdefault(domain, {})
            known.setdefault(name, []).append(since)
        self.provided.kernels = (outcome.last("kernels") or {"kernels": {}})["kernels"]

    def _libraries(self, proto: onnx.ModelProto | None) -> None:
        try:
            own = _session.get_library_path()
        except FileNotFoundError as error:
            own = ""
            self.report.add(Finding(
                "myops-library-missing", ERROR if self.own else WARNING,
                "The library of myops for ONNX Runtime has not been built.", f"{error}.",
                "pip install -e . in a checkout, or install the package again.",
            ))  # fmt: skip
        self.report.environment["library"] = own or None
        given = {os.path.realpath(path) for path in self.paths}
        if own and self.own and os.path.realpath(own) not in given:
            self.paths.insert(0, own)
        if proto is not None and self.own:
            self.paths += self._of_packages(proto)
        context = MessageContext(None, self.provided)
        for path in dict.fromkeys(self.paths):
            facts, found = libraries.examine(path, context, self.advance)
            self.report.libraries.append(facts)
            self.report.add(*found)
            if not facts.loads:
                self.provided.refused.append(path)
            elif not facts.listed:
                self.provided.unlisted.append(path)
        self.report.add(*libraries.clashes(self.paths, self.report.libraries))
        custom, sources = libraries.provided_by(self.report.libraries)
        self.provided.custom, self.provided.sources = custom, sources

    def _of_packages(self, proto: onnx.ModelProto) -> list[str]:
        """The libraries of installed packages that provide the model's other domains."""
        found = []
        for item in proto.opset_import:
            try:
                library = _libraries.find(item.domain)
                if library is None or library is _libraries.OURS:
                    continue
                file = library.ort_library
            except (ImportError, FileNotFoundError, ValueError) as error:
                self.report.add(Finding(
                    "op-library", WARNING,
                    f"A package states that it provides the domain {item.domain!r}, but its op "
                    "library cannot be opened.", f"{error}.".replace("..", "."),
                    "Install the package again, or remove it.",
                ))  # fmt: skip
                continue
            if file is not None:
                found.append(str(file))
        return found

    def _path(self, model: files.Model, folder: Path) -> str:
        if isinstance(model, (str, os.PathLike)):
            return os.path.abspath(os.fspath(model))
        data = model.SerializeToString() if isinstance(model, onnx.ModelProto) else bytes(model)
        (folder / "model.onnx").write_bytes(data)
        return str(folder / "model.onnx")

    def _look(self, proto: onnx.ModelProto, path: str) -> None:
        self.report.model = {"path": path, "bytes": os.path.getsize(path), "weights": {}}
        with self.report.careful("the facts about the file"):
            self.report.model.update(graph.facts(proto))
        with self.report.careful("its weights in other files"):
            sizes, found = weights.check(proto, Path(path).parent)
            self.report.model["weights"] = sizes
            self.report.add(*found)
        for what, check in (("its ops", ops.check), ("its nodes", values.check)):
            with self.report.careful(what):
                for finding in check(proto, self.provided):
                    self.report.add(finding)

    def _named(self, path: str, folder: Path | None) -> None:
        with self.report.careful("which libraries it names"):
            items, found = named.check(path, folder, self.paths, self.own)
            assert self.report.model is not None  # set by _look
            self.report.model["named_libraries"] = [dataclasses.asdict(item) for item in items]
            self.report.add(*found)

    # ---- The verdict.

    def _verdict(self, outcome: process.ChildOutcome) -> DoctorReport:
        version = self.provided.version
        if not outcome.last("loaded"):
            return self._judge("does not load", "The model does not load")
        ran = outcome.last("ran")
        invented = any(finding.code == "not-run" for finding in self.report.findings)
        if outcome.death or (outcome.last("failed") and ran is None and not invented):
            return self._judge("fails when it runs", "The model loads, but fails when it runs")
        self._overruled(ran is not None)
        if self.report.errors:
            return self._judge(
                "loads, but something is wrong", "The model loads, but something is wrong"
            )
        if ran is None:
            return self._judge("loads", f"The model loads in ONNX Runtime {version}.")
        if ran["not_finite"]:
            self.report.add(Finding(
                "not-finite", WARNING,
                f"The outputs {', '.join(ran['not_finite'])} hold NaN or infinity.",
                "It may be because of the invented inputs.",
                "Try it with inputs of your own: --input NAME=file.npy.",
            ))  # fmt: skip
        on = " on invented inputs" if self.report.inputs_are_invented else ""
        return self._judge("runs", f"The model loads and runs in ONNX Runtime {version}{on}.")

    def _overruled(self, ran: bool) -> None:
        """The runtime decides: a model that it accepts has no errors."""
        elsewhere = ("library", "named", "domain-clash", "myops", "onnxruntime")
        for finding in self.report.errors:
            # Loading does not detect these.
            certain = finding.code in ("kernel-refuses", op_mistakes.CODE) and not ran
            if not certain and not finding.code.startswith(elsewhere):
                finding.severity = WARNING
                finding.why += " ONNX Runtime accepts it all the same."

    def _try_kernel(self) -> None:
        """Runs a kernel of ours on this CPU, through ONNX Runtime."""
        own = self.report.environment["library"]
        if not own or not self.own or self.report.errors:
            return
        with tempfile.TemporaryDirectory(prefix="myops-doctor-") as folder:
            path, fed = Path(folder) / "add.onnx", Path(folder) / "feed.npz"
            path.write_bytes(libraries.tiny_model("MyAdd", "myops").SerializeToString())
            np.savez(fed, x=np.array([3], np.float32))
            outcome = self._trial().session(str(path), feeds=[str(fed)], about="trying a kernel")
        ran = outcome.last("ran")
        self.report.environment["kernel_runs"] = ran is not None and ran["first"] == [9.0]
        if not self.report.environment["kernel_runs"]:
            failed = outcome.last("failed")
            if failed:
                finding = explain(failed["error"], MessageContext(None, self.provided))
                if finding.code == "environment-variable":
                    self.report.add(finding)
                    return
            self.report.add(Finding(
                "myops-kernel-fails", ERROR, "A kernel of myops does not run here.",
                f"myops::MyAdd was tried and causes {outcome.death or 'an error'}.",
                "Build the library on this machine: pip install -e . in a checkout.",
                failed["error"] if failed else outcome.stderr.strip()[-500:],
            ))  # fmt: skip

    def _number_of_threads(self, severity: str) -> None:
        """Reports a wrong MYOPS_NUM_THREADS, which calls with NumPy arrays read."""
        try:
            if self.own:
                _numpy_call.stated_threads()
        except ValueError as error:
            finding = explain(str(error), MessageContext(None, self.provided))
            finding.severity = severity
            finding.why += " Calls with NumPy arrays fail."
            self.report.add(finding)

    def _judge_alone(self) -> DoctorReport:
        if self.report.errors:
            return self._judge("problem", "Something is wrong")
        return self._judge(
            "healthy", f"Nothing is wrong here: ONNX Runtime {self.provided.version}"
            + (" and the library of myops work together." if self.own else " works."),
        )  # fmt: skip

    def _judge(self, verdict: str, summary: str) -> DoctorReport:
        report = self.report
        report.findings.sort(key=lambda finding: finding.severity != ERROR)
        report.verdict = verdict
        if not summary.endswith("."):
            first = report.errors[0].what if report.errors else ""
            summary += f": {first}" if first else "."
        if not report.errors and report.warnings:
            summary += f" There is something to know ({len(report.warnings)})."
        report.summary = summary
        return report
