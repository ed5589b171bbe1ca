"""Runs a part of the examination in a process of its own: what crashes there does no harm here."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SECONDS_FOR_A_LIBRARY = 60.0

_SIGNALS = {
    "SIGSEGV": "a segmentation fault (SIGSEGV): it touched memory that is not its own",
    "SIGBUS": "a bus error (SIGBUS), as from a file that was cut off",
    "SIGABRT": "an abort (SIGABRT), as after a C++ exception that nobody caught",
    "SIGILL": "an illegal instruction (SIGILL): it was compiled for another CPU, or a trap in it",
    "SIGFPE": "an arithmetic error (SIGFPE), as a division of an integer by zero",
    "SIGKILL": "a kill (SIGKILL), as when the memory runs out",
}


@dataclass
class ChildOutcome:
    """What a child reported.

    death: How it ended when it did not end well, in words; "" when it did.
    """

    events: list[dict[str, Any]] = field(default_factory=list)
    death: str = ""
    stderr: str = ""

    def first(self, stage: str) -> dict[str, Any] | None:
        """The oldest event of a stage."""
        return next((event for event in self.events if event["stage"] == stage), None)

    def last(self, stage: str) -> dict[str, Any] | None:
        """The newest event of a stage."""
        found = [event for event in self.events if event["stage"] == stage]
        return found[-1] if found else None

    @property
    def stage(self) -> str:
        """The last stage that it reached."""
        return self.events[-1]["stage"] if self.events else "start"


def run(
    request: dict[str, Any],
    seconds: float | None = None,
    advance: Callable[[str], None] | None = None,
) -> ChildOutcome:
    """Answers a request in a new Python process, see myops.ort._doctor.child.

    Args:
        request: What child.main takes.
        seconds: After this time the process is ended.
        advance: Called with the name of the step before the process starts.
    """
    if advance:
        advance(request["about"])
    with tempfile.TemporaryDirectory(prefix="myops-doctor-") as folder:
        place = Path(folder)
        (place / "request.json").write_text(json.dumps({**request, "folder": folder}))
        # The same modules as here, however they were found; but myops itself is not imported.
        path = [os.path.abspath(item) for item in sys.path]
        child = str(Path(__file__).with_name("child.py"))
        code = (
            f"import sys; sys.path[:] = {path!r}\n"
            "from importlib.util import module_from_spec, spec_from_file_location\n"
            f"spec = spec_from_file_location('myops_doctor_child', {child!r})\n"
            "child = module_from_spec(spec); spec.loader.exec_module(child)\n"
            f"child.main({folder!r})"
        )
        with (place / "stderr").open("wb") as errors, (place / "stdout").open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                cwd=request.get("cwd"),
            )
            try:
                status = process.wait(seconds)
                death = _death(status)
            except subprocess.TimeoutExpired:
                death = f"no answer for {seconds:g} seconds"
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()
        stderr = (place / "stderr").read_text(errors="replace")
        return ChildOutcome(_events(place / "events.jsonl"), death, stderr)


def _events(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    found = []
    for line in path.read_text(errors="replace").splitlines():
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:  # the process died while it wrote
            break
    return found


def _death(status: int) -> str:
    if status == 0:
        return ""
    if status > 0:
        return f"the end of the process by exit({status})"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return _SIGNALS.get(name, f"the signal {name}")
