"""Tensors on other devices than the CPU: errors, and calls on CUDA with stand-ins for its
libraries.

No GPU is needed. A tensor "on CUDA" is one of torch's whose memory is that of this process; the
driver, NVRTC and torch's CUDA library are stand-ins (tests/native/cuda), which run the kernels' own
text on the CPU. So all code between a call in Python and a kernel is the code that ships.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
import warm

from myops._torch import fast_call

HERE = Path(__file__).parent
STAND_INS = HERE.parents[1] / "build" / "native" / "tests" / "native" / "cuda"
PROGRAM = HERE / "cuda_program.py"


def run(*arguments: str, program: Path = PROGRAM, **environment: str) -> Any:
    done = warm.run(str(program), *arguments, env={**os.environ, **environment}, cwd=HERE)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_tensors_on_a_device_without_kernels_are_refused() -> None:
    """The error names the op, the device and what to do; patched functions of torch keep their
    kernels."""
    assert "passed: elsewhere" in run("elsewhere")


def test_cuda_tensors_are_refused_by_a_pytorch_without_cuda() -> None:
    assert "passed: without_cuda" in run("without_cuda")


def run_with_stand_ins(*arguments: str, program: Path = PROGRAM) -> Any:
    if not (STAND_INS / "libtorch_cuda.so").is_file():
        pytest.skip("no stand-ins for CUDA: make test-native builds them")
    return run(
        *arguments,
        str(STAND_INS / "libtorch_cuda.so"),
        program=program,
        MYOPS_CUDA_DRIVER=str(STAND_INS / "libmyops_fake_driver.so"),
        MYOPS_NVRTC=str(STAND_INS / "libmyops_fake_nvrtc.so"),
        MYOPS_CUDA_CACHE="",
    )


def test_cuda_kernels_run_with_stand_ins() -> None:
    assert "passed: with_stand_ins" in run_with_stand_ins("with_stand_ins")


@pytest.mark.parametrize("way", ["built for this torch", "for every torch"])
def test_fast_calls_on_cuda_equal_calls_through_the_dispatcher(way: str) -> None:
    """Results, errors, gradients, devices, streams and memory, with and without the module built
    for this torch."""
    if way == "built for this torch" and fast_call.INTERNALS is None:
        pytest.skip(f"needs myops built where torch {torch.__version__} is, which is optional")
    assert f"passed: {way}" in run_with_stand_ins(way, program=HERE / "cuda_fast_calls.py")
