"""The last block of docs/tutorial.md: the bundle in a C++ program."""

from __future__ import annotations

from pathlib import Path

from programs import wheel
from tutorial import blocks, shell


def test_the_program_says_what_python_says(
    python: Path, tutorial: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    folder, said = tutorial
    (commands,) = [text for _, title, text in blocks() if title == "host"]
    root, _ = wheel(tmp_path / "onnxruntime")  # the library that run.py used
    numbers = shell(commands, folder, python, ONNXRUNTIME=str(root)).split()
    assert numbers == said["python run.py\n"].split()
