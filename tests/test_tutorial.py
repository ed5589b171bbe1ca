"""docs/tutorial.md: every block of it is run, that for C++ hosts last."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
import pytest
from programs import wheel
from tutorial import blocks, shell

pytestmark = pytest.mark.slow  # it builds a package and runs the conformance suite twice

Played = tuple[Path, dict[str, str]]


def test_the_output_of_the_tutorial_is_as_shown(tutorial: Played) -> None:
    folder, said = tutorial
    assert [title for _, title, _ in blocks()].count("host") == 1
    assert said["python check.py\n"].startswith("swish: passed")
    (tested,) = [text for command, text in said.items() if "pytest" in command]
    assert re.search(r"\n21 passed in", tested), tested  # 19 families, a refused call, types
    model = onnx.load(folder / "deploy" / "network.onnx")
    assert ("activations", "Swish") in {(node.domain, node.op_type) for node in model.graph.node}


def test_the_prototypes_file_runs_on_the_kernel(tutorial: Played) -> None:
    _, said = tutorial
    numbers = said["python run.py\n"].split()
    assert len(set(numbers)) == len(numbers) == 8


def test_the_cpp_program_prints_what_python_prints(
    python: Path, tutorial: Played, tmp_path: Path
) -> None:
    folder, said = tutorial
    (commands,) = [text for _, title, text in blocks() if title == "host"]
    root, _ = wheel(tmp_path / "onnxruntime")  # the library that run.py used
    numbers = shell(commands, folder, python, ONNXRUNTIME=str(root)).split()
    assert numbers == said["python run.py\n"].split()
