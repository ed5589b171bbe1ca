"""myops.package_stub and `myops stubs`: what is written, and what is refused."""

from __future__ import annotations

import ast
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import warm
from prototype_ops import soft_clip_prototype
from typer.testing import CliRunner

import myops
from myops import _stubs, cli
from myops._text import printable

ROOT = Path(__file__).parents[1]
Writer = Callable[..., str]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Writer]:
    """Writes a package and returns its name."""
    monkeypatch.syspath_prepend(tmp_path)
    made: list[str] = []

    def write(init: str, **modules: str) -> str:
        name = f"stubbed_{tmp_path.name}_{len(made)}".replace("-", "_")
        made.append(name)
        folder = tmp_path / name
        folder.mkdir()
        (folder / "__init__.py").write_text(init.replace("PACKAGE", name))
        for module, text in modules.items():
            (folder / f"{module}.py").write_text(text.replace("PACKAGE", name))
        importlib.invalidate_caches()
        return name

    yield write
    for name in [item for item in sys.modules if item.partition(".")[0] in made]:
        del sys.modules[name]


def signatures(stub: str) -> dict[str, str]:
    """Name -> parameters and result, of the functions in a stub."""
    tree = ast.parse(stub)
    return {
        item.name: f"({ast.unparse(item.args)}) -> {ast.unparse(item.returns)}"
        for item in tree.body
        if isinstance(item, ast.FunctionDef) and item.returns is not None
    }


def test_functions_have_the_types_of_the_description(package: Writer) -> None:
    name = package(
        "from PACKAGE.ops import add, resize\n__all__ = ['add', 'resize']\n",
        ops="from myops.ops.my_add import _my_add as add\n"
        "from myops.ops.resize import _resize as resize\n",
    )
    stub = myops.package_stub(name)
    found = signatures(stub)
    assert found["add"] == "(a: Tensor, b: Tensor, *, out: Tensor | None=None) -> Tensor"
    inputs, _, attributes = found["resize"].partition(", antialias: ")
    assert inputs == (
        "(X: Tensor, roi: Tensor | Sequence[float] | None=None, "
        "scales: Tensor | Sequence[float] | None=None, sizes: Tensor | Sequence[int] | None=None"
    )
    assert "mode: Literal['nearest', 'linear', 'cubic', 'area']='nearest'" in attributes
    assert "axes: Sequence[int]=..." in attributes
    assert "cubic_coeff_a: float=-0.75" in attributes
    assert attributes.endswith(", *, out: Tensor | None=None) -> Tensor")
    # What it says is what the function takes.
    module = importlib.import_module(name)
    x = torch.rand(1, 1, 2, 2)
    assert module.resize(x, None, [1, 1, 2, 2], None, mode="linear").shape == (1, 1, 4, 4)
    assert module.resize(X=x, scales=[1, 1, 2, 2], mode="linear").shape == (1, 1, 4, 4)


def test_a_required_attribute_behind_an_optional_input_has_overloads(
    package: Writer, tmp_path: Path
) -> None:
    """It can be given by position and by name, but not be left out."""
    name = package(
        "from PACKAGE.ops import peak\n__all__ = ['peak']\n",
        ops="""
import myops

def made(x, w=None, *, step, window, wide):
    return x

peak = myops.prototype(
    made, name="Peak", domain="PACKAGE", types={"T": ["float32"]},
    inputs=[myops.Input("x", "T", ""), myops.Input("w", "T", "", optional=True)],
    outputs=[myops.Output("y", "T", "")],
    attributes=[myops.Attribute("step", 1, ""), myops.Attribute("window", 1, "", required=True),
                myops.Attribute("wide", False, "")],
    shape="N, N -> N",
)
""",
    )
    stub = myops.package_stub(name)
    assert stub.count("@overload\ndef peak(") == 2
    lines = {
        "peak(x, window=3)": True, "peak(x, None, 1, 3)": True, "peak(x, None, 1, 3, True)": True,
        "peak(x, w=x, window=3, wide=True)": True, "peak(x)": False, "peak(x, None, 1)": False,
        "peak(x, window='a')": False,
    }  # fmt: skip
    (tmp_path / name / "__init__.pyi").write_text(stub)
    (tmp_path / name / "py.typed").write_text("")
    use = tmp_path / "use.py"
    head = f"import torch\nfrom {name} import peak\nx = torch.ones(3)\n"
    use.write_text(head + "\n".join(lines) + "\n")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-incremental", "--cache-dir", os.devnull, str(use)],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    refused = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line}
    first = head.count("\n") + 1
    assert refused == {first + n for n, fits in enumerate(lines.values()) if not fits}, done.stdout


def test_other_public_names_are_written(package: Writer) -> None:
    name = package(
        "import math\nfrom PACKAGE import tools\nfrom PACKAGE.tools import Thing, helper as aid\n"
        "from torch.nn.functional import relu\nfrom math import pi\n"
        "TITLE = 'x'\nTABLE = {}\nNOTHING = None\nFLAG = True\n"
        "__all__ = ('aid', 'Thing', 'tools', 'relu', 'pi', 'TITLE', 'TABLE', 'NOTHING', 'FLAG')\n",
        tools="def helper(n: int) -> str: return 'x' * n\nclass Thing: pass\n",
    )
    lines = myops.package_stub(name).splitlines()
    assert f"from {name}.tools import helper as aid" in lines
    assert f"from {name}.tools import Thing as Thing" in lines
    assert f"from {name} import tools as tools" in lines
    assert "from torch.nn.functional import relu as relu" in lines
    for line in ("TITLE: str", "pi: float", "TABLE: Any", "NOTHING: Any", "FLAG: bool"):
        assert line in lines
    assert "from typing import Any" in lines
    assert "from torch import Tensor" not in lines
    ast.parse("\n".join(lines))


DOCS = ('ends """\nimport os\n""" in \x1b[31m a quote "', "ends in \\")


def test_descriptions_stay_in_their_docstring(package: Writer) -> None:
    name = package(
        "from PACKAGE.ops import one, two\n__all__ = ['one', 'two']\n",
        ops="""
import myops
from test_stubs import DOCS

def made(name, doc):
    def function(x, *, scale):
        return x
    function.__name__ = name
    return myops.prototype(function, domain=__name__ + "_" + name, types={"T": ["float32"]},
        inputs=[myops.Input("x", "T", doc)], outputs=[myops.Output("y", "T", "")], doc=doc,
        attributes=[myops.Attribute("scale", -1e30, "")],
        shape=lambda inputs, attributes: [inputs[0].shape])

one = made("one", DOCS[0])
two = made("two", DOCS[1])
""",
    )
    stub = myops.package_stub(name)
    tree = ast.parse(stub)
    assert not [item for item in ast.walk(tree) if isinstance(item, ast.Import)]
    assert "\x1b" not in stub
    assert signatures(stub)["one"] == "(x: Tensor, scale: float=-1e+30) -> Tensor"
    functions = [item for item in tree.body if isinstance(item, ast.FunctionDef)]
    docs = [(ast.get_docstring(item) or "").split("\n")[0] for item in functions]
    assert docs == [printable(text) for text in DOCS]


@pytest.mark.parametrize(
    ("init", "text"),
    [
        ("", "expected __all__ in __init__.py, a list of its public names"),
        ("__all__ = 'x'", "expected __all__"),
        ("__all__ = ['gone']", "__all__: got 'gone', which the package does not have"),
        ("__all__ = [3]", "__all__: got 3"),
        ("def own(x: int) -> int: return x\n__all__ = ['own']", "own is defined in __init__.py"),
    ],
)
def test_packages_that_cannot_have_a_stub_are_refused(
    init: str, text: str, package: Writer
) -> None:
    with pytest.raises(ValueError, match=text):
        myops.package_stub(package(init))


def test_a_module_is_refused(package: Writer) -> None:
    name = package("", single="__all__ = []")
    with pytest.raises(ValueError, match="got a single module, expected a package"):
        myops.package_stub(f"{name}.single")
    with pytest.raises(ModuleNotFoundError):
        myops.package_stub("no_such_package_anywhere")


@pytest.mark.parametrize("which", ["new", "gallery"])
def test_committed_stubs_are_up_to_date(
    which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without compiling the packages: their libraries define nothing."""
    folder, name = ROOT / "examples" / "gallery", "myops_gallery"
    if which == "new":
        folder, name = myops.new_package("stubbed_new", tmp_path, op="swish"), "stubbed_new"
        assert (folder / "tests" / "test_types.py").is_file()
    library = SimpleNamespace(define=lambda *names, **rules: None)
    monkeypatch.setattr(myops, "op_library", lambda package: library)
    monkeypatch.syspath_prepend(folder / "src")
    stub = folder / "src" / name / "__init__.pyi"
    assert stub.read_text() == myops.package_stub(name)
    assert (stub.parent / "py.typed").is_file()
    assert '["py.typed", "*.pyi"]' in (folder / "pyproject.toml").read_text()
    for module in [item for item in sys.modules if item.partition(".")[0] == name]:
        del sys.modules[module]


def test_a_prototype_is_found_by_identity() -> None:
    clip = soft_clip_prototype("stubbed_prototypes")
    found = _stubs._op(clip)
    assert found is not None
    assert (found[0].node, found[1]) == ("stubbed_prototypes::SoftClip", True)
    assert _stubs._op(lambda x: x) is None


# ---- The command.


def typed(*words: Any) -> tuple[int, str, str]:
    done = CliRunner().invoke(cli.app(), ["stubs", *map(str, words)])
    return done.exit_code, done.stdout, done.stderr


def test_command_writes_a_stub(package: Writer, tmp_path: Path) -> None:
    name = package("from PACKAGE.a import f\n__all__ = ['f']\n", a="def f(x: int) -> int: ...\n")
    folder = tmp_path / name
    stub = folder / "__init__.pyi"
    status, out, _ = typed(name, "--check")
    assert (status, out.count("not up to date")) == (1, 2)
    assert not stub.exists()
    assert typed(name)[0] == 0
    assert stub.read_text() == myops.package_stub(name)
    assert (folder / "py.typed").read_text() == ""
    assert typed(name, "--check")[0] == 0
    stub.write_text("")
    status, out, _ = typed(name, "--check", "--json")
    assert (status, json.loads(out)["stale"]) == (1, [str(stub)])
    (folder / "py.typed").write_text("partial\n")
    status, out, _ = typed(name, "--json")
    assert (status, json.loads(out)["written"]) == (0, [str(stub)])
    assert (folder / "py.typed").read_text() == "partial\n"  # the user's own file
    status, out, _ = typed(name, "--output", "-")
    assert (status, out) == (0, myops.package_stub(name))
    assert typed(name, "-o", tmp_path / "other.pyi")[0] == 0
    assert (tmp_path / "other.pyi").read_text() == stub.read_text()


def test_wrong_arguments_of_the_command_are_refused(package: Writer) -> None:
    ending = package("raise SystemExit(0)")
    for words, text in (
        (["no_such_package_anywhere"], "there is no module 'no_such_package_anywhere'"),
        (["json"], "PACKAGE: 'json': dump is defined in __init__.py itself"),
        ([ending], "the file ends the program (SystemExit: 0)"),
        (["myops.ort", "-o", "-", "--check"], "--output: got - as well as --check"),
    ):
        command = ["-m", "myops", "stubs", *words]
        path = str(Path(*sys.path[:1]))
        environment = {"PYTHONPATH": f"{path}:{ROOT / 'python'}"}
        done = warm.run(*command, env={**os.environ, **environment})
        assert (done.returncode, done.stdout) == (2, "")
        assert text in done.stderr
        assert "Traceback" not in done.stderr
