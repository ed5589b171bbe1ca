"""Records the terminal pictures of the README: runs each command and keeps what it prints.

    python scripts/record_casts.py            # all, into docs/casts/
    python scripts/record_casts.py doctor     # one

The commands run in a temporary folder in which cast_models.py has written their files; the names of
that folder and of this one are left out. tests/test_casts.py finds pictures that are out of date.
"""

from __future__ import annotations

import html
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "casts"
WIDTH = 106
MODELS = Path(__file__).with_name("cast_models.py")
# The name of each picture and the commands in it.
CASTS = {
    "matrix": ["myops matrix interpolate --case 'bilinear*' --opsets 9-13"],
    "compare": ["myops compare network.py:example broken.onnx"],
    "doctor": ["myops doctor misspelled.onnx"],
}


def write_models(folder: Path) -> None:
    """Writes the files that the commands read."""
    subprocess.run([sys.executable, str(MODELS)], cwd=folder, check=True)


def record(name: str, folder: Path) -> str:
    """The picture, as SVG, of what the commands print in a folder with their files."""
    console = Console(
        record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, highlight=False
    )
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
    return console.export_svg(title="myops")


def words(svg: str) -> list[str]:
    """The words in a picture, line by line of the terminal."""
    lines: dict[str, list[str]] = {}
    for line, text in re.findall(
        r'<text [^>]*clip-path="url\(#[^)]*?-(line-\d+)\)">(.*?)</text>', svg
    ):
        lines.setdefault(line, []).append(html.unescape(text).replace("\xa0", " "))
    return " ".join("".join(pieces) for pieces in lines.values()).split()


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        write_models(Path(folder))
        for name in sys.argv[1:] or CASTS:
            (FOLDER / f"{name}.svg").write_text(record(name, Path(folder)), encoding="utf-8")
            print(FOLDER / f"{name}.svg")


if __name__ == "__main__":
    main()
