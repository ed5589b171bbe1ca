"""Records the terminal pictures of the README: runs each command and keeps what it prints.

    python scripts/record_casts.py            # all, into docs/casts/
    python scripts/record_casts.py doctor     # one

The commands run in a temporary folder in which cast_models.py has written their files; the names of
that folder and of this one are left out.
"""

from __future__ import annotations

import io
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "casts"
WIDTH = 100
MODELS = Path(__file__).with_name("cast_models.py")
# Name of the picture: the commands in it.
CASTS = {
    "matrix": ["myops matrix interpolate --case 'bilinear*' --opsets 9-13"],
    "compare": ["myops compare network.py:example broken.onnx"],
    "doctor": ["myops doctor misspelled.onnx"],
}


def record(name: str, folder: Path) -> None:
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    terminal = {"FORCE_COLOR": "1", "COLUMNS": str(WIDTH), "TERM": "xterm-256color"}
    environment = {**os.environ, **terminal}
    for command in CASTS[name]:
        run = subprocess.run(
            [sys.executable, "-m", *shlex.split(command)],
            cwd=folder, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if run.returncode not in (0, 1):
            raise SystemExit(f"{command}: exit status {run.returncode}\n{run.stderr}")
        console.print(f"[bold]$ {command}[/]")
        shown = run.stdout.replace(f"{folder}/", "").replace(f"{ROOT}/", "")
        console.print(Text.from_ansi(shown.rstrip()))
    FOLDER.mkdir(parents=True, exist_ok=True)
    console.save_svg(str(FOLDER / f"{name}.svg"), title="myops")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, str(MODELS)], cwd=folder, check=True)
        for name in sys.argv[1:] or CASTS:
            record(name, Path(folder))
            print(FOLDER / f"{name}.svg")


if __name__ == "__main__":
    main()
