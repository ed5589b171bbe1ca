"""The files of the package: they have no import circle; and which modules an import loads."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import warm

import myops

PACKAGE = Path(myops.__file__).parent
COMPILED = "myops._numpy"  # no Python file


def modules_of(package: Path) -> dict[str, Path]:
    """{dotted name: file}, without the template of `myops new`."""
    found = {}
    for file in package.rglob("*.py"):
        parts = file.relative_to(package.parent).with_suffix("").parts
        if not {"template", "template_cuda"} & set(parts):
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def runs(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a file, also inside functions, without blocks for type checkers only."""
    for node in ast.iter_child_nodes(tree):
        yield node
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for item in node.orelse:
                yield item
                yield from runs(item)
        else:
            yield from runs(node)


def imports_of(source: str, known: Mapping[str, Path]) -> set[str]:
    """The modules that a file imports: at its top and inside functions."""
    found = set()
    for node in runs(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(item.name for item in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports name their modules in full"
            for item in node.names:
                inner = f"{node.module}.{item.name}"
                found.add(inner if inner in known or inner == COMPILED else str(node.module))
    return found & set(known)


def circle_in(graph: Mapping[str, set[str]]) -> list[str]:
    """A circle, from a module back to itself; empty where there is none."""
    done: set[str] = set()
    for start in graph:
        path: list[str] = []
        todo = [(start, iter(sorted(graph[start])))] if start not in done else []
        path += [start] if todo else []
        while todo:
            module, rest = todo[-1]
            following = next((item for item in rest if item not in done), None)
            if following is None:
                done.add(module)
                todo.pop()
                path.pop()
            elif following in path:
                return [*path[path.index(following) :], following]
            else:
                todo.append((following, iter(sorted(graph[following]))))
                path.append(following)
    return []


def graph_of(package: Path) -> dict[str, set[str]]:
    known = modules_of(package)
    return {name: imports_of(file.read_text(), known) - {name} for name, file in known.items()}


def test_package_has_no_import_circle() -> None:
    graph = graph_of(PACKAGE)
    assert len(graph) > 200
    assert sum(map(len, graph.values())) > 700
    assert "myops._torch.define" in graph["myops"]  # inside a function
    assert " -> ".join(circle_in(graph)) == ""


def test_an_import_circle_is_found(tmp_path: Path) -> None:
    package = tmp_path / "pack"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "inner" / "__init__.py").write_text("from pack.inner import one\n")
    (package / "inner" / "one.py").write_text("def f():\n    from pack import two\n")
    (package / "two.py").write_text("import pack.three\n")
    three = package / "three.py"
    three.write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pack.two\n")
    assert circle_in(graph_of(package)) == []
    three.write_text("def g():\n    try:\n        from pack.inner.one import f\n    except: ...\n")
    circle = circle_in(graph_of(package))
    assert circle[0] == circle[-1]
    assert set(circle) == {"pack.inner.one", "pack.two", "pack.three"}


@pytest.mark.parametrize(
    ("imported", "absent"),
    [
        ("myops", ["torch", "onnx", "onnxruntime"]),
        ("myops.onnx", ["torch", "onnx", "onnxruntime"]),
        ("myops._libraries", ["torch", "onnx", "onnxruntime"]),
        ("myops.ort", ["torch", "onnx", "onnxruntime"]),
        ("myops.onnx.schema", ["torch", "onnxruntime"]),
        ("myops.onnx.lowering", ["torch", "onnxruntime"]),
        ("myops.ort.pyops", ["torch"]),
    ],
)
def test_an_import_loads_no_other_package(imported: str, absent: list[str]) -> None:
    code = f"import sys, {imported}; print(sorted({set(absent)} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


@pytest.mark.parametrize(
    ("before", "imported", "most"),
    [("numpy", "myops", 35), ("onnxruntime", "myops.ort", 50), ("torch", "myops", 25)],
)
def test_an_import_loads_few_modules(before: str, imported: str, most: int) -> None:
    """docs/performance.md has the times; on a busy machine the number of modules says more."""
    code = (
        f"import sys, {before}; before = set(sys.modules); import {imported}; "
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert len(done.stdout.split()) <= most, done.stdout


def test_first_calls_do_not_load_compilers() -> None:
    """sympy and torch's compiler take seconds, and only symbolic lengths need them."""
    code = (
        "import sys, torch, myops\n"
        "x = torch.ones(1, 1, 4, 4, requires_grad=True)\n"
        "y = myops.deform_conv2d(x, torch.zeros(1, 2, 4, 4), torch.ones(1, 1, 1, 1))\n"
        "y = myops.resize(myops.interpolate(y, size=(8, 8)), [1.0, 1.0, 0.5, 0.5])\n"
        "myops.my_add(y, torch.ones(1, 4)).sum().backward()\n"
        "print(x.grad.sum().item(), sorted({'sympy', 'torch._dynamo'} & sys.modules.keys()))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "32.0 []", done.stdout + done.stderr


@pytest.mark.parametrize("switch", ["", "0"])
def test_import_hook_is_installed_and_removed(switch: str) -> None:
    """One finder, until torch's exporter is imported; none with MYOPS_IMPORT_HOOK=0."""
    code = (
        "import sys\n"
        "before = list(sys.meta_path)\n"
        "import myops\n"
        "print([type(item).__module__ for item in sys.meta_path if item not in before])\n"
    )
    environment = {**os.environ, "MYOPS_IMPORT_HOOK": switch}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    expected = [] if switch == "0" else ["myops.onnx.symbolics.translation"]
    assert done.stdout.strip() == str(expected), done.stderr


@pytest.mark.parametrize("switch", ["", "0"])
def test_exports_with_and_without_the_hook(switch: str) -> None:
    """The export is the first use of an op; without the hook, the translation table is passed."""
    table = ", custom_translation_table=myops.onnx.translation_table()" if switch == "0" else ""
    code = (
        "import torch, myops\n"
        "class Model(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return myops.my_add(x, x)\n"
        "x = torch.ones(2, 3)\n"
        f"program = torch.onnx.export(Model(), (x,), dynamo=True, verbose=False{table})\n"
        "print([node.op_type for node in program.model_proto.graph.node])\n"
        "checked = myops.onnx.export(Model(), (x,), input_names=['x'])\n"
        "print([node.op_type for node in checked.graph.node])\n"
    )
    environment = {**os.environ, "MYOPS_IMPORT_HOOK": switch}
    done = warm.run("-c", code, env=environment, without_myops=True)
    assert done.stdout.split("\n")[-3:-1] == ["['MyAdd']", "['MyAdd']"], done.stdout + done.stderr


def test_documented_modules_are_importable() -> None:
    for name in ("arrays", "lowering", "matrix", "module_paths"):
        code = f"import myops.onnx.{name} as it; assert it.__all__"
        assert not subprocess.run([sys.executable, "-c", code], capture_output=True).returncode
