"""Writes a folder that shows a difference on any machine with NumPy and ONNX Runtime."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from myops import _libraries
from myops.onnx.comparison import ort_side, run_models
from myops.onnx.graph import files, scopes

if TYPE_CHECKING:
    from myops.onnx.comparison.result import Report

_SCRIPT = '''"""{title}

Runs submodel.onnx on the inputs that PyTorch's module got, and prints how far the result is from
PyTorch's. Needs numpy and onnxruntime{needs}.
"""

import os

import numpy as np
import onnxruntime

HERE = os.path.dirname(os.path.abspath(__file__))
INPUTS = {inputs!r}  # name in inputs.npz: name in the model
OUTPUT = {output!r}
RTOL, ATOL = {rtol!r}, {atol!r}

options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
{libraries}session = onnxruntime.InferenceSession(
    os.path.join(HERE, "submodel.onnx"), options, providers=["CPUExecutionProvider"]
)
arrays = np.load(os.path.join(HERE, "inputs.npz"))
feeds = {{name: arrays[key] for key, name in INPUTS.items()}}
(got,) = session.run([OUTPUT], feeds)
expected = np.load(os.path.join(HERE, "expected.npz"))["expected"]

print("node:      {node}")
print("module:    {module}")
print("PyTorch:   shape", list(expected.shape), expected.dtype)
print("ONNX file: shape", list(got.shape), got.dtype)
if got.shape != expected.shape:
    raise SystemExit("the shapes differ")
wide = np.complex128 if np.iscomplexobj(expected) else np.float64
error = np.abs(got.astype(wide) - expected.astype(wide))
bad = ~np.isclose(got.astype(wide), expected.astype(wide), rtol=RTOL, atol=ATOL, equal_nan=True)
worst = np.unravel_index(np.nanargmax(np.where(bad, error, 0)), error.shape) if error.size else ()
print("largest difference:", float(error[worst]), "at", tuple(map(int, worst)))
print("elements that differ:", int(bad.sum()), "of", bad.size)
raise SystemExit(1 if bad.any() else 0)
'''

_OURS = """try:  # the operators of the domain "myops"
    import myops.ort

    options.register_custom_ops_library(myops.ort.get_library_path())
except ImportError:  # pip install myops
    print("without the library of myops, {fallback}")
"""
_PACKAGE = """try:  # the operators of the domain {domain!r}
    import myops

    options.register_custom_ops_library(str(myops.op_library({package!r}).ort_library))
except ImportError:  # install myops and the package {package}
    print("without the library of {package}, {fallback}")
"""
_EXTENSIONS = """import onnxruntime_extensions  # pip install onnxruntime-extensions

options.register_custom_ops_library(onnxruntime_extensions.get_library_path())
"""
_OTHERS = """for library in {libraries!r}:  # the custom-op libraries of the model
    options.register_custom_ops_library(os.environ.get("OP_LIBRARY", library))
"""


def write(report: Report, folder: str | os.PathLike[str]) -> str:
    """Writes submodel.onnx, inputs.npz, expected.npz and script.py; returns the script's path."""
    mismatch = report.first_mismatch
    if mismatch is None or mismatch.submodel is None or mismatch.expected is None:
        raise ValueError(
            "there is nothing to reproduce: "
            + ("no value differs" if mismatch is None else f"the cause is {mismatch.cause!r}")
        )
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    model = onnx.ModelProto()
    model.CopyFrom(mismatch.submodel)
    arrays = run_models.wide_feeds(mismatch.arrays, run_models.widen(model))
    names = [item.name for item in model.graph.input]
    keys = {f"input_{number}": name for number, name in enumerate(names)}
    files.save(model, place / "submodel.onnx")
    inputs: dict[str, Any] = {key: arrays[name] for key, name in keys.items()}
    np.savez(place / "inputs.npz", **inputs)
    np.savez(place / "expected.npz", expected=mismatch.expected)
    value = next(v for v in report.values if v.name == mismatch.value)
    bounds = value.difference or mismatch.alone
    needs, libraries = _needed(model, mismatch.libraries)
    script = _SCRIPT.format(
        title=_text(f"The first difference of an ONNX file to PyTorch: {mismatch.title}."),
        needs=needs,
        libraries=libraries,
        inputs=keys,
        output=mismatch.value,
        rtol=bounds.rtol if bounds else 1e-4,
        atol=bounds.atol if bounds else 1e-6,
        node=_text("; ".join(mismatch.nodes) or "(none alone)"),
        module=_text(mismatch.title),
    )
    path = place / "script.py"
    path.write_text(script, encoding="utf-8")
    mismatch.reproduction = str(place)
    return str(path)


def _needed(model: Any, others: list[str]) -> tuple[str, str]:
    """What else the script needs, as text and as code."""
    nodes = [*scopes.all_nodes(model.graph.node)]
    nodes += [n for f in model.functions for n in scopes.all_nodes(f.node)]
    domains = {node.domain for node in nodes}
    words, code = [], ""
    bodied = {function.domain for function in model.functions if scopes.is_body(function)}
    for domain in sorted(domains):
        library = _libraries.find(domain)
        if library is None or not library.package:
            continue  # an unknown library, or a prototype, which exists in its own process only
        fallback = "its nodes run as their function bodies"
        fallback = fallback if domain in bodied else "the model will not load"
        words.append(library.package)
        code += (_OURS if library is _libraries.OURS else _PACKAGE).format(
            fallback=fallback, domain=domain, package=library.package
        )
    if domains.intersection(ort_side.EXTENSIONS):
        words.append("onnxruntime-extensions, and its PyOps when there are any")
        code += _EXTENSIONS
    if others:
        words.append("the libraries named below")
        code += _OTHERS.format(libraries=[os.path.abspath(item) for item in others])
    return "".join(f", {word}" for word in words), code


def _text(words: str) -> str:
    """Text from a model file, escaped for use inside quotes."""
    kept = "".join(letter if letter.isprintable() else "?" for letter in words)
    return kept.replace("\\", "/").replace('"', "'")
