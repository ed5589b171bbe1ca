"""Runs the golden models of tests/data/golden. Needs only NumPy and ONNX Runtime.

As a program it prints what it found as JSON; scripts/compat.py runs it in every ONNX Runtime:

    python tests/golden.py LIBRARY
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent / "data" / "golden"

# The errors of an ONNX Runtime for a model that is newer than itself.
TOO_NEW = re.compile(
    r"Unsupported model IR version|Current official support for domain|"
    r"opset \d+ is under development|under development and support for this is limited"
)
# Its error for a standard operator that it does not have (DeformConv came with 1.25).
LACKS = re.compile(r"NOT_IMPLEMENTED : Could not find an implementation for DeformConv\(\d+\)")


def index() -> dict[str, dict[str, Any]]:
    """The recorded facts about each model, by its name."""
    return json.loads((FOLDER / "index.json").read_text())


def arrays(name: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The inputs of a model by name, and its expected outputs by name."""
    with np.load(FOLDER / f"{name}.npz") as stored:
        return tuple(
            {key.split(":", 1)[1]: stored[key] for key in stored.files if key.startswith(kind)}
            for kind in ("in:", "out:")
        )


def run(name: str, library: str | None) -> dict[str, np.ndarray]:
    """The outputs of a model, with the custom-op library or, for None, without one."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if library is not None:
        options.register_custom_ops_library(library)
    session = onnxruntime.InferenceSession(
        str(FOLDER / f"{name}.onnx"), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, arrays(name)[0]), strict=True))


def check(name: str, outputs: dict[str, np.ndarray], tolerance: float) -> None:
    """Raises AssertionError unless dtypes, shapes and numbers are the stored ones."""
    expected = arrays(name)[1]
    assert sorted(outputs) == sorted(expected)
    for key, wanted in expected.items():
        got = outputs[key]
        assert got.shape == wanted.shape, f"{key}: shape {got.shape}, not {wanted.shape}"
        if wanted.dtype.kind in "iu":
            assert got.dtype == wanted.dtype, f"{key}: dtype {got.dtype}, not {wanted.dtype}"
            np.testing.assert_array_equal(got, wanted)
        else:  # stored in float64, which the model rounds
            assert got.dtype.kind == "f", f"{key}: dtype {got.dtype}"
            np.testing.assert_allclose(
                got.astype(np.float64), wanted, rtol=tolerance, atol=tolerance
            )


def verdict(name: str, facts: dict[str, Any], library: str | None) -> dict[str, str]:
    """{"verdict": "ok", "bits": ...}; else "too new", "lacks an operator", "wrong", and why."""
    try:
        outputs = run(name, library)
    except Exception as error:  # ONNX Runtime's own types; the text is the result
        kind = "too new" if TOO_NEW.search(str(error)) else "wrong"
        if library is None and LACKS.search(str(error)):
            kind = "lacks an operator"
        reason = str(error).replace(f"{FOLDER}/", "").strip()
        return {"verdict": kind, "reason": reason[:300]}
    try:
        check(name, outputs, facts["tolerance"])
    except AssertionError as error:
        return {"verdict": "wrong", "reason": str(error).strip()[:300]}
    digest = hashlib.sha256()
    for key in sorted(outputs):
        digest.update(outputs[key].tobytes())
    return {"verdict": "ok", "bits": digest.hexdigest()[:16]}


def main(library: str) -> None:
    import onnxruntime

    found = {}
    for name, facts in index().items():
        found[name] = {"library": verdict(name, facts, library)}
        if facts["body"]:
            found[name]["body"] = verdict(name, facts, None)
    print(json.dumps({"onnxruntime": onnxruntime.__version__, "models": found}))


if __name__ == "__main__":
    main(sys.argv[1])
