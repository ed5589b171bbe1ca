"""Loads the model of this folder into ONNX Runtime. Needs onnxruntime (1.17 or later), no myops.

python load.py            shows what the model takes and gives

import load               with this folder on sys.path
session = load.session()
outputs = session.run(None, {"x": x})
"""

from __future__ import annotations

import difflib
import hashlib
import inspect
import platform
import sys
from pathlib import Path
from typing import Any

# Filled in when the bundle is made.
MODEL = ""
PLATFORM = ""
# The SHA-256 of each library.
LIBRARIES: dict[str, str] = {}

HERE = Path(__file__).resolve().parent


def this_platform() -> str:
    """The system and processor that libraries must be made for here, such as "linux-x86_64"."""
    machine = {"amd64": "x86_64", "arm64": "aarch64"}
    name = platform.machine().lower()
    return f"{sys.platform}-{machine.get(name, name)}"


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def checked_libraries() -> list[str]:
    """The paths of the libraries, after each was checked.

    Raises:
        RuntimeError: They are for another platform, or one is not what was bundled.
        FileNotFoundError: One is missing.
    """
    if LIBRARIES and this_platform() != PLATFORM:
        raise RuntimeError(
            f"the libraries in {HERE} are for {PLATFORM}, this is {this_platform()}; make the "
            "bundle again on such a machine (`myops bundle`)"
        )
    for name, expected in LIBRARIES.items():
        if not (HERE / name).is_file():
            raise FileNotFoundError(f"{HERE / name} is missing; copy the whole bundle again")
        got = sha256(HERE / name)
        if got != expected:
            raise RuntimeError(
                f"{HERE / name} is not the library that was bundled: got SHA-256 {got}, expected "
                f"{expected}; copy the whole bundle again"
            )
    return [str(HERE / name) for name in LIBRARIES]


def refuse_unknown(arguments: dict[str, Any], session: Any) -> None:
    """Refuses arguments that InferenceSession does not have: it ignores them, such as a misspelt
    `providers`.

    Raises:
        TypeError: One is unknown.
    """
    theirs = set(inspect.signature(session.__init__).parameters) - {
        "self", "path_or_bytes", "sess_options", "kwargs",
    }  # fmt: skip
    # It has these in its **kwargs, so that its signature does not name them.
    known = sorted(theirs | {"enable_fallback", "read_config_from_model", "disabled_optimizers"})
    for name in arguments:
        if name not in known:
            near = difflib.get_close_matches(name, ["options", *known], 1)
            raise TypeError(
                f"session: got the argument {name!r}, which neither it nor "
                f"onnxruntime.InferenceSession has. Did you mean {near[0]!r}?" if near else
                f"session: got the argument {name!r}, expected one of options, {', '.join(known)}"
            )  # fmt: skip


def session(options: Any = None, **arguments: Any) -> Any:
    """An onnxruntime.InferenceSession of the model.

    Args:
        options: onnxruntime.SessionOptions of your own; the libraries are added to them.
        arguments: Passed on to InferenceSession. Default of `providers`: the CPU.

    Raises:
        RuntimeError, FileNotFoundError: See `checked_libraries`.
        TypeError: An argument is unknown.
    """
    import onnxruntime

    if tuple(int(part) for part in onnxruntime.__version__.split(".")[:2]) < (1, 17):
        raise RuntimeError(
            f"got onnxruntime {onnxruntime.__version__}, expected 1.17 or later; "
            "`pip install --upgrade onnxruntime`"
        )
    refuse_unknown(arguments, onnxruntime.InferenceSession)
    options = onnxruntime.SessionOptions() if options is None else options
    for library in checked_libraries():
        options.register_custom_ops_library(library)
    arguments.setdefault("providers", ["CPUExecutionProvider"])
    return onnxruntime.InferenceSession(str(HERE / MODEL), options, **arguments)


if __name__ == "__main__":
    loaded = session()
    for what, values in (("input", loaded.get_inputs()), ("output", loaded.get_outputs())):
        for value in values:
            print(f"{what:<7} {value.name}  {value.type}  {value.shape}")
