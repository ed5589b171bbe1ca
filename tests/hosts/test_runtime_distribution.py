"""myops-runtime: its wheel, alone with NumPy and ONNX Runtime in an environment of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest
from installed import ROOT, outside, run

import myops

GOLDEN = ROOT / "tests" / "golden.py"

# Prints the result of a model, and what Python says where a part of all of myops is asked for.
USE = """
import json, sys
import numpy as np
import myops, myops.ort

said = {}
absent = [(myops, "my_add"), (myops, "onnx"), (myops.ort, "doctor"), (myops.ort, "bundle")]
for module, name in absent:
    try:
        getattr(module, name)
    except AttributeError as error:
        said[name] = str(error)
session = myops.ort.session(sys.argv[1])
with np.load(sys.argv[2]) as inputs:
    result = session.run(None, dict(inputs))[0]
print(json.dumps({
    "said": said, "bits": result.tobytes().hex(), "dir": dir(myops), "ort": dir(myops.ort),
    "version": myops.__version__, "torch": "torch" in sys.modules,
}))
"""


@pytest.fixture(scope="module")
def wheel() -> Path:
    """Built by CMake at -O2, because ccache then has the kernels already, from the tree of `make
    test-sanitizers`. ccache only finds them if the compiler has the same name (CMake's default,
    c++; scikit-build-core would choose g++) and the build folder is as deep in the tree."""
    folder = ROOT / "build" / "runtime"
    for old in folder.glob("*.whl"):
        old.unlink()
    run(
        sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation",
        "--wheel-dir", folder, "--config-settings", f"build-dir={folder}-O2",
        "--config-settings", "cmake.define.MYOPS_OPTIMIZATION=-O2",
        "--config-settings", "cmake.define.CMAKE_CXX_COMPILER=c++", ROOT / "runtime", cwd=ROOT,
    )  # fmt: skip
    (file,) = folder.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the wheel and what it requires, of the versions here."""
    folder = tmp_path_factory.mktemp("runtime")
    run(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    pip = folder / "venv" / "bin" / "pip"
    needed = [f"{name}=={version(name)}" for name in ("numpy", "onnxruntime")]
    done = subprocess.run(
        [pip, "install", "--quiet", wheel, *needed], env=outside(), capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"numpy and onnxruntime cannot be had: {done.stderr[-300:]}")
    return folder / "venv" / "bin" / "python"


def test_the_wheel_requires_neither_torch_nor_onnx(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (archive.read(n).decode() for n in names if n.endswith("/METADATA"))
        (licence,) = (archive.read(n) for n in names if n.endswith("/licenses/LICENSE"))
    lines = [line for line in metadata.splitlines() if line.startswith("Requires-D")]
    required = {line.split()[1] for line in lines if "extra ==" not in line}
    assert {name.split(">")[0] for name in required} == {"numpy", "onnxruntime"}
    assert f"\nVersion: {myops.__version__}\n" in metadata
    assert "\nLicense-File: LICENSE\n" in metadata
    assert licence == (ROOT / "LICENSE").read_bytes()
    assert "myops/lib/libmyops_ort.so" in names
    assert not [name for name in names if "/include/" in name or name.endswith((".h", ".cpp"))]


def test_models_have_the_bits_of_the_full_package(python: Path) -> None:
    """Every stored model gives the bits that the library of the distribution myops gives."""
    code = "import myops.ort; print(myops.ort.get_library_path())"
    library = run(python, "-c", code, cwd=python.parent).strip()
    assert Path(library).is_relative_to(python.parents[1])
    alone = json.loads(run(python, GOLDEN, library, cwd=python.parent))
    full = json.loads(run(sys.executable, GOLDEN, myops.ort.get_library_path(), cwd=python.parent))
    assert alone == full


def test_a_session_and_what_is_not_there(python: Path) -> None:
    model = ROOT / "tests" / "data" / "golden" / "export_add_dynamo_18.onnx"
    stored, inputs = golden_inputs(model.stem, python.parent)
    found = json.loads(run(python, "-c", USE, model, inputs, cwd=python.parent))
    (result,) = myops.ort.session(str(model)).run(None, stored)
    assert found["bits"] == result.tobytes().hex()
    assert found["version"] == myops.__version__
    assert found["ort"] == ["get_library_path", "register", "session", "verify"]
    assert found["dir"] == ["__doc__", "__version__", "batch", "ort"]
    assert not found["torch"]
    assert set(found["said"]) == {"my_add", "onnx", "doctor", "bundle"}
    for name, text in found["said"].items():
        assert f".{name}: got myops-runtime" in text
        assert "pip install myops" in text


def golden_inputs(name: str, folder: Path) -> tuple[dict, Path]:
    import golden
    import numpy as np

    stored = golden.arrays(name)[0]
    np.savez(folder / "inputs.npz", **stored)
    return stored, folder / "inputs.npz"
