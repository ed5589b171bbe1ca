"""myops-runtime: its wheel, alone with NumPy and ONNX Runtime in an environment of its own."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pybind11
import pytest
from installed import ROOT, outside, run

import myops
from myops import build

GOLDEN = ROOT / "tests" / "golden.py"

# Prints the result of a model, and the errors for parts that only the full package has.
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


OBJECTS = ROOT / "build" / "objects"


@pytest.fixture(scope="module")
def wheel() -> Path:
    """Linked from the objects of our libraries if `make build` left them: 40 s of CPU instead of
    220. test_cmake_compiles_every_source checks that CMake has the same sources and flags."""
    folder = ROOT / "build" / "runtime"
    for old in folder.glob("*.whl"):
        old.unlink()
    objects = OBJECTS if (OBJECTS / "csrc" / "core" / "invoke.o").is_file() else ""
    run(
        sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation",
        "--wheel-dir", folder, "--config-settings", f"build-dir={folder}-objects",
        "--config-settings", f"cmake.define.MYOPS_OBJECTS={objects}", ROOT / "runtime", cwd=ROOT,
    )  # fmt: skip
    (file,) = folder.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the wheel and its requirements, in the versions of here."""
    folder = tmp_path_factory.mktemp("runtime")
    run(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    pip = folder / "venv" / "bin" / "pip"
    needed = [f"{name}=={version(name)}" for name in ("numpy", "onnxruntime")]
    done = subprocess.run(
        [pip, "install", "--quiet", wheel, *needed], env=outside(), capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"numpy and onnxruntime cannot be installed: {done.stderr[-300:]}")
    return folder / "venv" / "bin" / "python"


def test_cmake_compiles_every_source(tmp_path: Path) -> None:
    """With the flags of build.py; this is the build without objects of another one."""
    tools = Path(sys.executable).parent
    run(
        tools / "cmake", "-S", ROOT / "runtime", "-B", tmp_path, "-G", "Ninja",
        f"-DCMAKE_MAKE_PROGRAM={tools / 'ninja'}", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
        f"-DPython_EXECUTABLE={sys.executable}", f"-Dpybind11_DIR={pybind11.get_cmake_dir()}",
        cwd=tmp_path,
    )  # fmt: skip
    commands = json.loads((tmp_path / "compile_commands.json").read_text())
    parts = ("core", "cuda", "ops", "adapters/ort", "adapters/numpy")
    sources = {path for part in parts for path in (ROOT / "csrc" / part).rglob("*.cpp")}
    skipped = "neon.cpp" if platform.machine() == "x86_64" else "avx*.cpp"
    wanted = {path for path in sources if not (path.parent.name == "isa" and path.match(skipped))}
    assert {Path(item["file"]).resolve() for item in commands} == wanted
    flags = {flag for flag in build.COMPILE if flag != "-g0"}  # "Release" has no -g
    for item in commands:
        assert flags <= set(item["command"].split()), item


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


def test_golden_models_have_equal_bits_in_both_distributions(python: Path) -> None:
    """Each golden model gives the same bits with the library of either distribution."""
    code = "import myops.ort; print(myops.ort.get_library_path())"
    library = run(python, "-c", code, cwd=python.parent).strip()
    assert Path(library).is_relative_to(python.parents[1])
    alone = json.loads(run(python, GOLDEN, library, cwd=python.parent))
    full = json.loads(run(sys.executable, GOLDEN, myops.ort.get_library_path(), cwd=python.parent))
    assert alone == full


def test_session_works_and_missing_parts_name_the_full_package(python: Path) -> None:
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
