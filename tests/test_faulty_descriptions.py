"""Mistakes in the description of an op are named when its library is loaded: in Python by an
ImportError, in ONNX Runtime by a status. No mistake ends the process. A library may have any number
of ops."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from installed import cached

import myops

# This compiles a package; in `make test`, tests/native/description_tests.cpp tests such
# descriptions.
pytestmark = pytest.mark.slow

DATA = Path(__file__).parent / "data" / "faulty_descriptions"
LIBRARY = "library faulty_descriptions: "
IDENTIFIER = 'expected letters, digits and "_", and no digit first'
FAULTS = {
    "name": f'an op: name: got "vic-tim", {IDENTIFIER}',
    "twice": "misspelt: name: got the name of another op, expected a name that no other op of this "
    "library has",
    "node": f'victim: onnx: got the name "Half Done", {IDENTIFIER}',
    "shape": "victim: shape: got no rule, expected one, given with .shape()",
    "kernel": "victim: kernel: got none, expected one, given with .kernel()",
    "inputs": "victim: inputs: got none, expected at least one: their dtypes decide those of the "
    "outputs",
    "outputs": "victim: outputs: got none, expected at least one",
    "empty type": "victim: T: got a type of no dtypes, expected at least one",
    "undeclared type": 'victim: y: got the type parameter "U", expected one that the op declares '
    "with .type(), of [T]",
    "dtypes": "victim: x: got int64 among the dtypes of T, expected those that the kernel is "
    "written for, float32 or float64",
    "out": "victim: out: got an input or attribute of this name, expected another name: torch has "
    "it for the tensor that takes the result",
    "rule": 'victim: the shape rule "N -> N M" has the length "M" in an output, expected one that '
    "an input has",
    "exception": "victim: description: got an exception, out of luck, expected none",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("faulty") / "built"
    shutil.copytree(DATA, place)
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    environment = {**_environment(place), **cached(place)}
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return place


def _environment(place: Path, fault: str = "none") -> dict[str, str]:
    paths = [str(Path(myops.__file__).parents[1]), str(place)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "MYOPS_FAULT": fault}


def _say(place: Path, script: str, fault: str = "none") -> str:
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=place, env=_environment(place, fault),
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


LOAD = """
import onnxruntime
from myops._libraries import op_library
try:
    op_library("faulty_descriptions")
except ImportError as error:
    print(error)
else:
    print("imported")
options = onnxruntime.SessionOptions()
try:
    options.register_custom_ops_library("faulty_descriptions/libfaulty_descriptions_ort.so")
except Exception as error:
    print(error)
else:
    print("registered")
"""


def test_a_correct_library_is_loaded(folder: Path) -> None:
    assert _say(folder, LOAD).split() == ["imported", "registered"]


@pytest.mark.parametrize("fault", list(FAULTS))
def test_faults_of_a_description_are_named(folder: Path, fault: str) -> None:
    python, ort = _say(folder, LOAD, fault).splitlines()
    assert python == LIBRARY + FAULTS[fault]
    assert LIBRARY + FAULTS[fault] in ort


def test_torch_loads_a_library_with_a_faulty_op(folder: Path) -> None:
    """As C++ programs load it, without Python. It provides the correct ops, but not the faulty
    one."""
    said = _say(
        folder,
        """
import ctypes, torch
path = "faulty_descriptions/libfaulty_descriptions_torch.so"
torch.ops.load_library(path)
ops = torch.ops.faulty_descriptions
print(hasattr(ops, "victim"), ops.sound_00(torch.ones(2)).tolist())
faults = ctypes.CDLL(path).myops_faults
faults.restype = ctypes.c_char_p
print(faults().decode())
""",
        "kernel",
    )
    assert said.splitlines() == ["False [3.0, 3.0]", LIBRARY + FAULTS["kernel"]]


@pytest.mark.parametrize("cpp_type", ["int64_t", "long double", "Word"])
def test_a_cpp_type_without_a_dtype_does_not_compile(cpp_type: str, tmp_path: Path) -> None:
    source = tmp_path / "kernel.cpp"
    source.write_text(
        '#include "myops/op.h"\nusing namespace myops;\nstruct Word {};\n'
        "template <class T> void kernel(KernelContext&) {}\n"
        f"TypedKernel typed() {{ return MYOPS_TYPED(kernel, {cpp_type}, float); }}\n"
    )
    command = [*shlex.split(os.environ.get("CXX", "c++")), "-std=c++17", "-fsyntax-only"]
    command += ["-I", Path(__file__).parents[1] / "csrc" / "include", source]
    done = subprocess.run(command, capture_output=True, text=True)
    if cpp_type == "int64_t":
        assert done.returncode == 0, done.stderr
    else:
        assert done.returncode != 0
        assert "no element type of myops is this C++ type" in done.stderr


TAKEN = """
import torch
import myops
first = torch.library.Library("faulty_descriptions", "FRAGMENT")
first.define("victim(Tensor x) -> Tensor")
library = myops.op_library("faulty_descriptions")
try:
    library.define("victim")
except ImportError as error:
    print(error)
"""


def test_a_name_that_is_taken_in_the_dispatcher_is_refused(folder: Path) -> None:
    assert _say(folder, TAKEN).strip() == (
        f"{LIBRARY}victim: schema: got victim(Tensor x, *, float factor=3.0) -> Tensor, expected "
        "one that torch accepts, of a name that no other library has registered"
    )


CALLS = """
import numpy as np, torch
import myops
from myops import _numpy_call
library = myops.op_library("faulty_descriptions")
for name in ("misspelt", "other_kind", "half_done"):
    op = library.define(name)
    for call in (
        lambda: op(torch.ones(2, dtype=torch.float64)),
        lambda: op.packet(torch.ones(2, dtype=torch.float64)),
        lambda: _numpy_call.call(library.ops[name], [np.ones(2)]),
    ):
        try:
            call()
        except (RuntimeError, ValueError) as error:
            print(str(error).splitlines()[0])
"""


def test_faults_of_a_kernel_are_named_in_the_call(folder: Path) -> None:
    expected = (
        "misspelt: fcator: got an attribute of this name in the code of the op, expected one of "
        "[factor]",
        "other_kind: factor: got code that reads a list of ints, expected a float, as the op "
        "declares it",
        "half_done: kernel: got dtype float64, expected float32, which it is written for. Declare "
        "and dispatch the same dtypes",
    )
    assert _say(folder, CALLS).splitlines() == [text for text in expected for _ in range(3)]


def test_a_library_of_160_ops_is_loaded(folder: Path) -> None:
    """160 ops with 320 overloads, of which each calls its own kernel, into `out` too."""
    said = _say(
        folder,
        """
import torch
import myops
library = myops.op_library("faulty_descriptions")
names = sorted(name for name in library.ops if name.startswith("sound"))
x = torch.ones(3)
for number, name in enumerate(names):
    op = library.define(name)
    assert op(x, factor=float(number)).tolist() == [number] * 3, name
    out = torch.empty(3)
    op.packet.out(x, factor=float(-number), out=out)
    assert out.tolist() == [-number] * 3, name
print(len(names))
""",
    )
    assert said.strip() == "160"


@pytest.mark.parametrize("domain", ["ai.onnx.ml", "aten", "quantized", "inductor", "com.microsoft"])
@pytest.mark.parametrize("argument", ["domain", "namespace"])
def test_prototypes_in_reserved_domains_are_refused(domain: str, argument: str) -> None:
    names = {"domain": "mine_only", "namespace": "mine_only", argument: domain}
    if argument == "namespace" and "." in domain:
        names["namespace"] = "aten"
    with pytest.raises(
        ValueError, match=f"{argument}: got .*, expected a name that no other library uses"
    ):
        myops.prototype(
            lambda x: x, name="mine", types={"T": ["float32"]},
            inputs=[myops.Input("x", "T", ".")], outputs=[myops.Output("y", "T", ".")],
            shape=lambda inputs, attributes: [inputs[0].shape], **names,
        )  # fmt: skip
