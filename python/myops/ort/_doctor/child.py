"""The child process of `process.run`, in which everything that may crash is done.

It is loaded by its path, without the package, which saves much of the time that it takes. Every
step is written to events.jsonl before it is taken, so that the last line tells where a
crash happened.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

# As in the options of a session; INFO and VERBOSE would be megabytes.
_SEVERITY = 2


class Log:
    """Writes events, each at once."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, stage: str, **facts: Any) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps({"stage": stage, **facts}, default=str) + "\n")


def main(folder: str) -> None:
    """Does what request.json in `folder` asks for.

    kind "environment": what ONNX Runtime is. "library": traces and registers one library.
    "session": registers libraries, loads a model, and runs it when there are inputs.
    """
    place = Path(folder)
    request = json.loads((place / "request.json").read_text())
    log = Log(place / "events.jsonl")
    log("import")
    try:
        import onnxruntime
    except Exception as error:  # a broken installation may raise anything
        log("failed", at="import", error=_text(error))
        return
    {"environment": _environment, "library": _library, "session": _session}[request["kind"]](
        onnxruntime, request, log
    )
    log("end")
    if request["kind"] == "library":
        os._exit(0)  # what a library does at exit, with the copied table, would be misleading


def _loaded(file: str) -> Any:
    """The module in another file, by its path from this one."""
    path = Path(__file__).parent / file
    spec = spec_from_file_location(f"myops_doctor_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _text(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _environment(onnxruntime: Any, request: dict[str, Any], log: Log) -> None:
    log(
        "environment",
        version=onnxruntime.__version__,
        path=os.path.dirname(onnxruntime.__file__),
        providers=onnxruntime.get_available_providers(),
        build=onnxruntime.get_build_info(),
    )
    try:  # some builds lack it
        from onnxruntime.capi import onnxruntime_pybind11_state as state

        schemas = state.get_all_operator_schema()
        log("schemas", ops=[[item.domain, item.name, item.since_version] for item in schemas])
        kernels: dict[str, list[Any]] = {}
        for item in state.get_all_opkernel_def():
            kinds = sorted({kind for kinds in item.type_constraints.values() for kind in kinds})
            entry = [*item.version_range, kinds]
            kernels.setdefault(f"{item.domain}:{item.op_name}", []).append(entry)
        log("kernels", kernels=kernels)
    except Exception as error:
        log("no schemas", error=_text(error))


def _library(onnxruntime: Any, request: dict[str, Any], log: Log) -> None:
    if request["trace"]:
        tracing = _loaded("tracing.py")
        log("trace")
        tracing.trace(request["library"], log)
    log("register")
    options = _options(onnxruntime)
    try:
        options.register_custom_ops_library(request["library"])
        log("session")
        onnxruntime.InferenceSession(
            bytes.fromhex(request["model"]), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:
        log("failed", at="library", error=_text(error))


def _options(onnxruntime: Any, **settings: Any) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _SEVERITY
    for name, value in settings.items():
        setattr(options, name, value)
    return options


def _session(onnxruntime: Any, request: dict[str, Any], log: Log) -> None:
    options = _options(onnxruntime)
    if request["optimise"] is False:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    if request["dump"]:
        options.optimized_model_filepath = request["dump"]
    for library in request["libraries"]:
        log("register", library=library)
        try:
            options.register_custom_ops_library(library)
        except Exception as error:
            log("failed", at="register", library=library, error=_text(error))
            return
    log("load")
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            session = onnxruntime.InferenceSession(
                request["model"], options, providers=request["providers"]
            )
        except Exception as error:
            log("failed", at="load", error=_text(error))
            return
    log(
        "loaded",
        providers=session.get_providers(),
        warnings=[str(item.message) for item in caught],
        assigned=_assigned(session),
        inputs=[[item.name, item.type, item.shape] for item in session.get_inputs()],
        outputs=[[item.name, item.type, item.shape] for item in session.get_outputs()],
    )
    for number, feed in enumerate(request["feeds"]):
        if _run(session, feed, number, log):
            break
        if time.perf_counter() - began > request["seconds"]:
            break


def _assigned(session: Any) -> list[list[str]] | None:
    """[provider, node, domain, op type] of each node; None if onnxruntime does not report it."""
    try:
        groups = session.get_provider_graph_assignment_info()
        return [[group.ep_name, node.name, node.domain, node.op_type]
                for group in groups for node in group.get_nodes()]  # fmt: skip
    except Exception:  # an older onnxruntime, or nothing was recorded; its errors share no base
        return None


def _run(session: Any, feed: str, number: int, log: Log) -> bool:
    """Runs the model once; returns whether no other inputs need to be tried."""
    import numpy as np

    narrow = _loaded("../_narrow.py")
    log("run", feed=number)
    try:
        with np.load(feed, allow_pickle=False) as arrays:
            inputs = {name: arrays[name] for name in arrays.files}
        results = narrow.bound(session, inputs)()
    except narrow.CannotFeedError as error:
        log("not fed", error=_text(error), feed=number)
        return True
    except Exception as error:
        log("failed", at="run", error=_text(error), feed=number)
        return False
    shapes, odd, numbers = {}, [], []
    for item, result in zip(session.get_outputs(), results, strict=True):
        kind = narrow.element(result)
        value = narrow.plain(result)
        if not isinstance(value, np.ndarray):
            if kind and hasattr(value, "shape") and value.has_value() and value.is_tensor():
                shapes[item.name] = [kind, list(value.shape())]
            continue
        shapes[item.name] = [kind if kind in narrow.TYPES else str(value.dtype), list(value.shape)]
        value = narrow.wide(value, kind)
        if value.dtype.kind == "f" and value.size and not np.isfinite(value).all():
            odd.append(item.name)
        numbers.append(value.ravel()[:4].tolist())
    log("ran", outputs=shapes, not_finite=odd, first=numbers[0] if numbers else [], feed=number)
    return True
