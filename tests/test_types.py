"""The types that mypy and pyright infer for the public names."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

import myops

ROOT = Path(__file__).parents[1]

PROGRAM = """
import torch

import myops
import myops.nn
import myops.onnx
import myops.ort

x = torch.ones(1, 2, 3, 4)
y: torch.Tensor = myops.my_add(x, x)
y = myops.interpolate(x, scale_factor=torch.tensor(2.0), mode="bilinear")
y = myops.resize(x, [1, 1, 2, 2], mode="cubic", axes=None)
y = myops.deform_conv2d(x, y, x, stride=(1, 2), padding=1)
y = myops.nn.DeformConv2d(2, 2, 3)(x, y)
path: str = myops.ort.get_library_path()
"""
WRONG = [
    "s: str = myops.my_add(x, x)",
    "myops.interpolatee(x, 2)",
    "myops.my_add(x)",
    "myops.my_add(x, 'x')",
    "myops.interpolate(x, 2, mode=3)",
    "myops.resize(x, scale=[1, 1, 2, 2])",
    "myops.deform_conv2d(x, x)",
    "n: int = myops.ort.get_library_path()",
    "myops.ort.sesion('x')",
    "myops.onnx.exprt(x)",
]
CHECKERS = {
    "mypy": ["-m", "mypy", "--no-incremental", "--python-executable"],
    "pyright": ["-m", "basedpyright", "--level", "error", "--pythonpath"],
}


# Another package's, as `myops new` makes it, and one of prototypes with a stub by `myops stubs`.
THEIR_PROGRAM = """
import torch

import protos
import their

a = torch.ones(2, 3)
y: torch.Tensor = their.op(a)
y = their.op(x=a, limit=2.0)
y = protos.soft_clip(a, 2.0)
z: tuple[torch.Tensor, torch.Tensor] = protos.resample(a, [0, 1], mode="negate", flip=True)
limit: float = protos.LIMIT
"""
THEIR_WRONG = [
    "s: str = their.op(a)",
    "their.opp(a)",
    "their.op()",
    "their.op(a, limit='x')",
    "their.library",
    "s: str = protos.soft_clip(a)",
    "protos.soft_clp(a)",
    "protos.soft_clip(a, slope=1.0)",
    "protos.resample(a, [0.5])",
    "protos.resample(a, [0, 1], mode='kept')",
    "protos.resample(a, [0, 1]).shape",
    "s = protos.LIMIT",
]
PROTOS = """
import myops
from prototype_ops import resample_numpy, soft_clip_prototype

soft_clip = soft_clip_prototype("protos")
resample = myops.prototype(
    resample_numpy,
    domain="protos",
    name="resample",
    types={"T": ["float32"], "I": ["int64"]},
    inputs=[
        myops.Input("x", "T", "Rank 2."),
        myops.Input("places", "I", "Columns.", values=True),
        myops.Input("gain", "T", "One number.", optional=True),
    ],
    outputs=[myops.Output("y", "T", "The columns."), myops.Output("count", "I", "How many.")],
    attributes=[
        myops.Attribute("offsets", [0, 1], "Two.", type="ints"),
        myops.Attribute("mode", "keep", "What to do.", ("keep", "negate")),
        myops.Attribute("flip", False, "Whether to flip."),
    ],
    shape=lambda inputs, attributes: [[inputs[0].shape[0], None], []],
)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment in which `their` and `protos` are installed."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder / "env", symlinks=True)
    (packages,) = (folder / "env").glob("lib/python3*/site-packages")
    (packages / "others.pth").write_text(f"{ROOT}/python\n{sysconfig.get_path('purelib')}\n")
    made = myops.new_package("their", folder, op="op")
    shutil.copytree(made / "src" / "their", packages / "their")
    protos = packages / "protos"
    protos.mkdir()
    (protos / "__init__.py").write_text(
        "from protos.ops import resample, soft_clip\n\nLIMIT = 2.5\n"
        '__all__ = ["LIMIT", "resample", "soft_clip"]\n'
    )
    (protos / "ops.py").write_text(PROTOS)
    shutil.copy(ROOT / "tests" / "prototype_ops.py", packages)
    done = subprocess.run(
        [folder / "env" / "bin" / "python", "-m", "myops", "stubs", "protos"],
        capture_output=True, text=True, check=False,
        env={name: text for name, text in os.environ.items() if name != "PYTHONPATH"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("checker", CHECKERS)
def test_type_checkers_find_exactly_the_wrong_lines(
    checker: str, installed: Path, tmp_path: Path
) -> None:
    """Exactly the wrong lines are errors. One run checks both programs, because it reads all of
    torch.

    Checkers read the types of an installed package only if it has py.typed.
    """
    # As for an installed package, without the settings of this repository.
    (tmp_path / "pyproject.toml").write_text(
        '[tool.basedpyright]\ntypeCheckingMode = "standard"\n[tool.mypy]\n'
    )
    programs = {"program.py": (PROGRAM, WRONG), "their_program.py": (THEIR_PROGRAM, THEIR_WRONG)}
    for name, (program, wrong) in programs.items():
        (tmp_path / name).write_text(program + "\n".join(wrong) + "\n")
    python = installed / "env" / "bin" / "python"
    done = subprocess.run(
        [sys.executable, *CHECKERS[checker], python, *programs], cwd=tmp_path, timeout=600,
        capture_output=True, text=True, check=False,
        env={**os.environ, "MYPYPATH": f"{ROOT}/python"},
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    for name, (program, wrong) in programs.items():
        first = program.count("\n") + 1
        found = re.findall(rf"\b(?<!_){name}:(\d+).*\berror\b", done.stdout)
        lines = sorted({int(line) for line in found})
        assert lines == list(range(first, first + len(wrong))), done.stdout


def test_stub_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("make_stubs", ROOT / "scripts" / "make_stubs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.FILE.read_text() == module.stub(), "run: python scripts/make_stubs.py"
