"""Bundles: what is in the folder, and that it runs where no myops is installed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from ort_models import FLOAT, add_model, model_of
from runtimes import assert_equal_bits

import myops.onnx
import myops.ort
from myops.ort._loaders import load as loader
from myops.ort._named_libraries import KEY

FEEDS = {"a": np.float32([[1, 2, 3]]), "b": np.float32([1, 1, 1])}

# Runs a bundle's load.py where `import myops` fails; prints the result.
RUN = """
import json, sys
sys.modules["myops"] = None
import numpy as np
import load
feeds = {name: np.float32(value) for name, value in json.loads(sys.argv[1]).items()}
print(json.dumps(load.session().run(None, feeds)[0].tolist()))
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "add.onnx"
    onnx.save(add_model(), path)
    return path


def run_without_myops(
    folder: Path, feeds: dict[str, np.ndarray]
) -> subprocess.CompletedProcess[str]:
    text = json.dumps({name: value.tolist() for name, value in feeds.items()})
    command = [sys.executable, "-c", RUN, text]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_a_bundle_runs_without_myops(model: Path, tmp_path: Path) -> None:
    made = myops.ort.bundle(model, tmp_path / "deploy")
    names = {path.name for path in made.folder.iterdir()}
    assert names == {"add.onnx", "libmyops_ort.so", "load.py", "load.h", "README.md"}
    assert set(made.files) == names
    moved = made.folder.rename(tmp_path / "elsewhere")
    done = run_without_myops(moved, FEEDS)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[3, 5, 7]]
    shown = subprocess.run([sys.executable, moved / "load.py"], capture_output=True, text=True)
    assert "input   a  tensor(float)  ['N', 3]" in shown.stdout


def test_the_model_names_its_libraries(model: Path, tmp_path: Path) -> None:
    made = myops.ort.bundle(model, tmp_path / "deploy", check=False)
    (library,) = made.libraries
    assert library.sha256 == loader.sha256(Path(myops.ort.get_library_path()))
    assert (library.version, library.domains) == (myops.__version__, ("myops",))
    (entry,) = [item for item in onnx.load(made.model).metadata_props if item.key == KEY]
    assert json.loads(entry.value) == [
        {
            "file": "libmyops_ort.so",
            "version": myops.__version__,
            "sha256": library.sha256,
            "platform": loader.this_platform(),
            "domains": ["myops"],
        }
    ]
    for name in ("load.py", "load.h", "README.md"):
        assert library.sha256 in (made.folder / name).read_text()
    again = myops.ort.bundle(
        made.model, tmp_path / "again", check=False
    )  # a bundle's model: one entry stays
    assert len(onnx.load(again.model).metadata_props) == 1
    assert not onnx.load(model).metadata_props


@pytest.mark.parametrize(("name", "text"), [
    ("provider", "Did you mean 'providers'"), ("session_options", "Did you mean 'options'"),
    ("path_or_bytes", "expected one of options, disabled_optimizers"), ("sess_options", "Did you"),
])  # fmt: skip
def test_the_loader_refuses_unknown_arguments(name: str, text: str) -> None:
    """InferenceSession would ignore them."""
    with pytest.raises(TypeError, match=text):
        loader.session(**{name: None})


def test_the_loader_passes_arguments_on(model: Path, tmp_path: Path) -> None:
    made = myops.ort.bundle(model, tmp_path / "deploy", check=False)
    program = "import load; s = load.session(providers=['CPUExecutionProvider'], enable_fallback=0)"
    done = subprocess.run([sys.executable, "-c", program], cwd=made.folder, capture_output=True)
    assert done.returncode == 0, done.stderr


def test_the_loader_refuses_a_changed_library_and_another_platform(
    model: Path, tmp_path: Path
) -> None:
    made = myops.ort.bundle(model, tmp_path / "deploy", check=False)
    library, script = made.folder / "libmyops_ort.so", made.folder / "load.py"
    good = library.read_bytes()
    library.write_bytes(good + b"x")
    assert (
        "is not the library that was bundled: got SHA-256"
        in run_without_myops(made.folder, FEEDS).stderr
    )
    library.unlink()
    assert f"{library} is missing" in run_without_myops(made.folder, FEEDS).stderr
    library.write_bytes(good)
    text = script.read_text().replace(loader.this_platform(), "plan9-vax")
    script.write_text(text)
    done = run_without_myops(made.folder, FEEDS)
    assert f"are for plan9-vax, this is {loader.this_platform()}" in done.stderr


def test_external_data_is_copied(tmp_path: Path) -> None:
    weight = np.arange(3000, dtype=np.float32).reshape(1000, 3)
    nodes = [helper.make_node("MyAdd", ["a", "w"], ["c"], domain="myops")]
    proto = model_of(
        nodes, {"a": (FLOAT, [1000, 3])}, {"c": (FLOAT, None)},
        initializer=[numpy_helper.from_array(weight, "w")],
    )  # fmt: skip
    (tmp_path / "in" / "parts").mkdir(parents=True)
    path = tmp_path / "in" / "large.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="parts/w.bin", size_threshold=0)
    made = myops.ort.bundle(path, tmp_path / "deploy")
    assert "parts/w.bin" in made.files
    path.unlink()
    (tmp_path / "in" / "parts" / "w.bin").unlink()
    result = myops.ort.session(made.model).run(None, {"a": np.ones((1000, 3), np.float32)})[0]
    assert_equal_bits(result, 2 + weight)

    (made.folder / "parts" / "w.bin").unlink()
    with pytest.raises(FileNotFoundError, match=r"weights is missing: 'parts/w.bin'"):
        myops.ort.bundle(made.model, tmp_path / "second")
    assert not (tmp_path / "second").exists()


def mixed_model(domain: str, body: str = "") -> onnx.ModelProto:
    """z = MyAdd(Probe(x), x), where Probe is in another domain, optionally with a body."""
    proto = model_of(
        [
            helper.make_node("Probe", ["x"], ["y"], domain=domain),
            helper.make_node("MyAdd", ["y", "x"], ["z"], domain="myops"),
        ],
        {"x": (FLOAT, ["n"])}, {"z": (FLOAT, None)},
    )  # fmt: skip
    proto.opset_import.append(helper.make_opsetid(domain, 1))
    if body:
        node = helper.make_node(body, ["x"], ["y"])
        imports = [helper.make_opsetid("", 19)]
        proto.functions.append(helper.make_function(domain, "Probe", ["x"], ["y"], [node], imports))
    return proto


def test_a_domain_with_function_bodies_needs_no_library(tmp_path: Path) -> None:
    made = myops.ort.bundle(mixed_model("other", body="Neg"), tmp_path / "deploy")
    assert [item.domains for item in made.libraries] == [("myops",)]
    assert json.loads(run_without_myops(made.folder, {"x": np.float32([1, 2])}).stdout) == [-1, -2]


def test_standard_models_need_no_library(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    proto = model_of(nodes, {"x": (FLOAT, [2])}, {"y": (FLOAT, [2])})
    made = myops.ort.bundle(proto, tmp_path / "deploy")
    assert made.libraries == ()
    assert KEY not in {item.key for item in onnx.load(made.model).metadata_props}
    assert json.loads(run_without_myops(made.folder, {"x": np.float32([-1, 2])}).stdout) == [0, 2]


def test_models_that_cannot_be_bundled_leave_no_folder(
    model: Path, tmp_path: Path, probe_library: str
) -> None:
    target = tmp_path / "deploy"

    def refused(error: type[Exception], words: str, proto: Any = model, **options: Any) -> None:
        with pytest.raises(error, match=words):
            myops.ort.bundle(proto, target, **options)
        assert not target.exists()
        assert not list(tmp_path.glob(".deploy*"))

    refused(ValueError, "domain 'other', and no library for it is known", mixed_model("other"))
    refused(
        ValueError, "no node of the domain 'myop'. Did you mean 'myops'", libraries={"myop": "x"}
    )
    refused(FileNotFoundError, "no such custom-op library", libraries={"myops": "missing.so"})
    text = tmp_path / "text.so"
    text.write_text("#!/bin/sh\n")
    refused(ValueError, "got a script, expected a shared library", libraries={"myops": text})
    # A library that does not have the op: found out by loading the finished bundle.
    refused(
        RuntimeError, "does not load, so it was removed again", libraries={"myops": probe_library}
    )
    target.mkdir()
    (target / "precious.txt").touch()
    with pytest.raises(FileExistsError, match="exists and is not empty"):
        myops.ort.bundle(model, target)
    assert [path.name for path in target.iterdir()] == ["precious.txt"]


def test_bundling_does_not_import_torch(model: Path, tmp_path: Path) -> None:
    script = (
        "import sys, myops.ort; myops.ort.bundle(sys.argv[1], sys.argv[2]); "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script, model, tmp_path / "deploy"], check=True)


def test_command_writes_a_bundle(model: Path, tmp_path: Path, probe_library: str) -> None:
    command = [sys.executable, "-m", "myops", "bundle", model]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "library  libmyops_ort.so" in done.stdout
    assert (tmp_path / "add_bundle" / "load.py").is_file()
    words = [
        "-o",
        tmp_path / "b",
        "--library",
        f"myops@3.1={probe_library}",
        "--no-check",
        "--json",
    ]
    done = subprocess.run([*command, *words], capture_output=True, text=True, check=True)
    data = json.loads(done.stdout)
    assert data["libraries"][0]["file"] == "libprobe.so"
    assert data["libraries"][0]["version"] == "3.1"
    done = subprocess.run([*command, "--library", "x"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert re.search(r"got 'x',\s+expected DOMAIN=FILE", done.stderr)
