"""A C++ program on libtorch gives PyTorch's results: TorchScript, AOTInductor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from programs import HOSTS, attempt, build, run
from runtimes import assert_equal_bits

from myops import lib

LIBRARY = lib.path("libmyops_torch")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("libtorch")
    prefix = torch.utils.cmake_prefix_path
    return build(HOSTS / "libtorch", folder, f"CMAKE_PREFIX_PATH={prefix}") / "run_torch"


def test_torchscript_program_gives_equal_bits(
    program: Path, exported: Path, inputs: list[Path], expected: np.ndarray, tmp_path: Path
) -> None:
    run(program, exported / "net.ts", LIBRARY, tmp_path / "y.npy", *inputs)
    assert_equal_bits(np.load(tmp_path / "y.npy"), expected)


def test_aotinductor_package_gives_equal_bits(
    program: Path, network: Any, inputs: list[Path], expected: np.ndarray, tmp_path: Path
) -> None:
    network.write(tmp_path)  # the same seed: the same weights
    run(program, tmp_path / "net.pt2", LIBRARY, tmp_path / "cpp.npy", *inputs)
    assert_equal_bits(np.load(tmp_path / "cpp.npy"), expected)
    package = torch._inductor.aoti_load_package(str(tmp_path / "net.pt2"))
    x, factor = (torch.from_numpy(np.load(path)) for path in inputs)
    assert_equal_bits(package(x, factor).numpy(), expected)


def test_program_without_the_library_fails(
    program: Path, exported: Path, inputs: list[Path], tmp_path: Path
) -> None:
    done = attempt(program, exported / "net.ts", "libm.so.6", tmp_path / "y.npy", *inputs)
    assert done.returncode == 1
    assert "Unknown builtin op: myops::" in done.stderr
    assert not (tmp_path / "y.npy").exists()
