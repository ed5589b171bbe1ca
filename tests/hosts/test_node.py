"""Node.js runs the file through its function body."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from programs import HOSTS, attempt, run, tool

# The body is the runtime's own arithmetic; deform_conv2d's samples move with the last digits of
# the offsets, so single values differ by more than the rounding of one operation.
TOLERANCE = 1e-4
NODE = HOSTS / "node"


@pytest.fixture(scope="module")
def node() -> str:
    program = tool("node")
    if not (NODE / "node_modules" / "onnxruntime-node").is_dir():
        pytest.skip(f"no packages in {NODE}; `npm ci --ignore-scripts` there gets them")
    return program


def test_node_program_runs_the_function_bodies(
    node: str, exported: Path, inputs: list[Path], expected: np.ndarray, tmp_path: Path
) -> None:
    run(node, NODE / "run.mjs", exported / "net.onnx", tmp_path / "y.npy", *inputs)
    result = np.load(tmp_path / "y.npy")
    np.testing.assert_allclose(result, expected, rtol=TOLERANCE, atol=TOLERANCE)
    assert (result != expected).any()  # not our kernels: equal bits would mean that ours ran


def test_node_program_names_a_missing_input(node: str, exported: Path, tmp_path: Path) -> None:
    words = [NODE / "run.mjs", exported / "net.onnx", tmp_path / "y.npy", exported / "x.npy"]
    done = attempt(node, *words)
    assert done.returncode != 0
    assert "the model has 2 inputs, got 1 files" in done.stderr
