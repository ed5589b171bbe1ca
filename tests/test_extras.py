"""Commands that run without the extra `myops[tools]`, and those that name it in their error."""

import subprocess
from pathlib import Path

import pytest
import warm

# Makes Python not find the packages of the extra. (Except jinja2 and markdown-it, which torch and
# rich require.)
WITHOUT_TOOLS = """
import sys
from importlib.machinery import PathFinder

find_spec = PathFinder.find_spec
absent = ("matplotlib", "onnxslim", "netron")
assert not {*absent} & sys.modules.keys()
PathFinder.find_spec = lambda name, *rest: None if name in absent else find_spec(name, *rest)
"""

FROM_MODEL_TO_SESSION = """
import numpy as np, torch
import myops, myops.onnx, myops.ort

class Model(torch.nn.Module):
    def forward(self, a, b):
        return myops.my_add(a, b).relu()

a, b = torch.randn(3, 4), torch.randn(4)
myops.onnx.export(Model(), (a, b), "model.onnx", input_names=["a", "b"])
(result,) = myops.ort.session("model.onnx").run(None, {"a": a.numpy(), "b": b.numpy()})
assert np.array_equal(result, Model()(a, b).numpy())
"""

COMMAND = """
import sys
sys.argv[0] = "myops"
from myops.cli import main
main()
"""


def run_without_tools(code: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return warm.run("-c", WITHOUT_TOOLS + code, *arguments, cwd=folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with model.onnx, which a run without the extra has exported."""
    found = tmp_path_factory.mktemp("extras")
    result = run_without_tools(FROM_MODEL_TO_SESSION, found)
    assert result.returncode == 0, result.stderr
    return found


@pytest.mark.parametrize(
    "arguments",
    [("inspect", "model.onnx"), ("compare", "model.onnx", "model.onnx"), ("doctor", "model.onnx")],
)
def test_commands_without_the_extra_run(folder: Path, arguments: tuple[str, ...]) -> None:
    result = run_without_tools(COMMAND, folder, *arguments)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("arguments", "package"),
    [
        (("simplify", "model.onnx", "small.onnx"), "onnxslim"),
        (("compare", "model.onnx", "model.onnx", "--html", "page.html"), "matplotlib"),
        (("view", "model.onnx"), "Netron"),
    ],
)
def test_commands_that_need_the_extra_name_it(
    folder: Path, arguments: tuple[str, ...], package: str
) -> None:
    result = run_without_tools(COMMAND, folder, *arguments)
    text = " ".join(result.stderr.split())
    assert result.returncode == 2, result.stdout + result.stderr
    assert package in text
    assert "myops[tools]" in text
    assert not (folder / "small.onnx").exists()
    assert not (folder / "page.html").exists()
