"""Facts that several files of the project state are written once, or compared here."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import myops

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # which pytest needs there

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "python" / "myops"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


# ---- The version.


def test_the_metadata_has_the_version() -> None:
    command = [sys.executable, "setup.py", "--quiet", "--version"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == myops.__version__, done.stderr


def test_cmake_has_the_version(tmp_path: Path) -> None:
    cmake = shutil.which("cmake", path=str(Path(sys.executable).parent)) or shutil.which("cmake")
    if cmake is None:
        pytest.skip("needs cmake, of the extra test")
    shutil.copytree(ROOT / "cmake", tmp_path / "cmake")
    (tmp_path / "python" / "myops").mkdir(parents=True)
    shutil.copy(PACKAGE / "_version.py", tmp_path / "python" / "myops")
    # The lines up to project(); the rest would compile.
    text = (ROOT / "CMakeLists.txt").read_text()
    head = text[: text.index("\n", text.index("project(myops"))]
    text = head.replace("LANGUAGES CXX", "LANGUAGES NONE")
    (tmp_path / "CMakeLists.txt").write_text(text + "\nmessage(version=${PROJECT_VERSION})\n")
    done = subprocess.run([cmake, "-S", tmp_path, "-B", tmp_path / "build"],
                          capture_output=True, text=True)  # fmt: skip
    assert f"version={myops.__version__}\n" in done.stderr


def test_the_version_is_written_once() -> None:
    number = re.compile(rf"(?<![\d.]){re.escape(myops.__version__)}(?![\d.])")
    files = [ROOT / name for name in ("pyproject.toml", "CMakeLists.txt", "setup.py", "mkdocs.yml")]
    files += [file for file in PACKAGE.rglob("*.py") if "template" not in file.parts]
    files += [*(ROOT / "csrc").rglob("*.cpp"), *(ROOT / "csrc").rglob("*.h")]
    files += (ROOT / "cmake").iterdir()
    found = [file for file in files if number.search(file.read_text())]
    assert found == [PACKAGE / "_version.py"]


# ---- What is imported is declared.


def _imported(file: Path) -> Iterator[str]:
    """The top-level names of the modules that a file imports, at any place in it."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (item.name.partition(".")[0] for item in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield str(node.module).partition(".")[0]
        elif (
            isinstance(node, ast.Call)
            and ast.unparse(node.func) in ("import_module", "importlib.import_module")
            and isinstance(node.args[0], ast.Constant)
        ):
            yield str(node.args[0].value).partition(".")[0]


def _normal(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def _distribution(requirement: str) -> str:
    return _normal(re.split(r"[\s\[<>=!~;]", requirement)[0])


# Imported if installed, but never required.
OPTIONAL = {
    "torchvision": "its deform_conv2d is replaced or exported where it is installed",
    "IPython": "results show themselves in notebooks, which bring it",
    "load": "the file beside serve_app.py in a bundle",
    "ray": "the extra ray, which is no part of the extra test: it is large",
    "starlette": "ray[serve] brings it",
    "transformers": "inputs that are instances of its classes are taken apart",
}


def test_what_is_imported_is_declared() -> None:
    extras = [item for extra in ("batch", "build", "sign", "tools", "pyops")
              for item in PROJECT["optional-dependencies"].get(extra, [])]  # fmt: skip
    declared = {_distribution(item) for item in [*PROJECT["dependencies"], *extras]}
    owners = importlib.metadata.packages_distributions()
    templates = {PACKAGE / "scaffold" / name for name in ("template", "template_cuda")}
    missing = {}
    for file in PACKAGE.rglob("*.py"):
        if templates & set(file.parents):
            continue
        for name in {*_imported(file)} - {*sys.stdlib_module_names, "myops", *OPTIONAL}:
            found = {_normal(owner) for owner in owners.get(name, ["nothing that is installed"])}
            if not found & declared:
                missing.setdefault(name, (found, []))[1].append(str(file.relative_to(ROOT)))
    assert missing == {}


def test_nothing_else_is_required() -> None:
    """Each requirement is imported somewhere, or it would be installed for nothing."""
    owners = importlib.metadata.packages_distributions()
    imported = {name for file in PACKAGE.rglob("*.py") for name in _imported(file)}
    used = {_normal(owner) for name in imported for owner in owners.get(name, [])}
    assert {_distribution(item) for item in PROJECT["dependencies"]} <= used


# ---- One list of what lint checks.


def test_pre_commit_runs_what_lint_runs() -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is of the extra docs")
    hooks: list[dict[str, Any]] = [
        hook
        for repository in yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
        for hook in repository["hooks"]
    ]
    recipe = re.search(r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None
    lint = [line.strip() for line in recipe[1].splitlines()]
    entries = [hook["entry"].replace(".venv/bin/", "$(BIN)/") for hook in hooks]
    assert entries == [line.removesuffix(" $(SOURCES)") for line in lint]
    for hook, line in zip(hooks, lint, strict=True):
        assert hook.get("pass_filenames", True) == line.endswith(" $(SOURCES)")


# ---- What the public CI runs.


def test_the_workflow_calls_existing_targets() -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is of the extra docs")
    makefile = (ROOT / "Makefile").read_text()
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    steps = [step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"]]
    targets = {target for step in steps for target in re.findall(r"^make ([\w-]+)", step)}
    assert {"lint", "test", "site"} <= targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_workflow_tests_every_python() -> None:
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    tried = {tuple(map(int, item.split("."))) for item in re.findall(r'python: "([\d.]+)"', text)}
    least = tuple(map(int, PROJECT["requires-python"].removeprefix(">=").split(".")))
    assert min(tried) == least
    assert {minor for _, minor in tried} == set(range(least[1], max(tried)[1] + 1))
    least_torch = next(item for item in PROJECT["dependencies"] if item.startswith("torch>="))
    assert f"torch=={least_torch.removeprefix('torch>=')}.*" in text
