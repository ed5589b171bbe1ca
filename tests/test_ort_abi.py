"""Our declaration of the ONNX Runtime C ABI against the official header, by compiling."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEADER = "onnxruntime_c_api.h"
FOLDERS = [
    *[f"{folder}/include" for folder in filter(None, [os.environ.get("MYOPS_ONNXRUNTIME")])],
    "/usr/include/onnxruntime",
    "/usr/local/include/onnxruntime",
    str(ROOT / "build" / "onnxruntime" / "include"),
]


def header_folder() -> str:
    for folder in FOLDERS:
        for inside in ("", "core/session"):
            if (Path(folder) / inside / HEADER).is_file():
                return str(Path(folder) / inside)
    pytest.skip(f"no {HEADER} in {', '.join(FOLDERS)}; scripts/fetch_onnxruntime.sh gets it")


CHECK = ROOT / "tests" / "native" / "ort_abi_check.cpp"


def compile_check(ours: Path) -> subprocess.CompletedProcess[str]:
    """Compiles the check with `ours` as the folder that has adapters/ort/abi.h."""
    compiler = os.environ.get("CXX") or shutil.which("c++") or "g++"
    command = [compiler, "-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror"]
    command += ["-I", str(ours), "-I", header_folder(), str(CHECK)]
    return subprocess.run(command, capture_output=True, text=True)


def test_declarations_equal_the_official_header() -> None:
    done = compile_check(ROOT / "csrc")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("right", "wrong", "complaint"),
    [
        ("call(GetDimensions, 62,", "call(GetDimensions, 64,", "GetDimensions: place"),
        ("Value*, void** out", "Value*, int, void** out", "GetTensorMutableData: signature"),
        ("Float16 = 10", "Float16 = 9", "ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16"),
        ("int (*get_end_version)(const CustomOp*) = nullptr;", "", "get_end_version"),
        ("Status* (*compute_v2)", "void (*compute_v2)", "KernelComputeV2: signature"),
    ],
)
def test_a_wrong_declaration_does_not_compile(
    tmp_path: Path, right: str, wrong: str, complaint: str
) -> None:
    """Otherwise the check could compile with any declaration."""
    declared = (ROOT / "csrc" / "adapters" / "ort" / "abi.h").read_text()
    assert right in declared
    (tmp_path / "adapters" / "ort").mkdir(parents=True)
    changed = declared.replace(right, wrong, 1)
    (tmp_path / "adapters" / "ort" / "abi.h").write_text(changed)
    done = compile_check(tmp_path)
    assert done.returncode != 0
    assert complaint in done.stderr
