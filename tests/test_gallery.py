"""examples/gallery, built as the package of another author against a wheel of ours: its tests and
its demo."""

from __future__ import annotations

import re
from pathlib import Path

import leaks
import pytest
from installed import ROOT, copied, fork, install

pytestmark = pytest.mark.slow  # test_your_own_op.py builds a package in `make test`

GALLERY = ROOT / "examples" / "gallery"
OPS = ("homography_warp", "splat_points", "volume_render")


@pytest.fixture(scope="module")
def package(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package, built and installed."""
    folder = copied(GALLERY, tmp_path_factory.mktemp("gallery") / "gallery")
    setup = folder / "setup.py"
    fast = 'extensions("myops_gallery", extra_compile_args=["-O1"])'  # compiled in half the time
    assert 'extensions("myops_gallery")' in setup.read_text()
    setup.write_text(setup.read_text().replace('extensions("myops_gallery")', fast))
    install(python, folder)
    return folder


@pytest.fixture(scope="module")
def results(python: Path, package: Path) -> str:
    """What pytest prints of all tests of the package. They run in one process, because torch, its
    exporters and its compiler take five seconds to start."""
    words = ("-m", "pytest", "-v", "--color=no", "-p", "no:cacheprovider", "tests")
    return fork(python, *words, cwd=package)


@pytest.mark.parametrize("op", OPS)
def test_tests_of_the_package_pass(results: str, op: str) -> None:
    found = re.findall(rf"^tests/test_{op}\.py::.* ([A-Z]+) +\[ *\d+%\]$", results, re.MULTILINE)
    assert len(found) > 20
    assert set(found) == {"PASSED"}


def test_demo_draws_the_picture(python: Path, package: Path, tmp_path: Path) -> None:
    """The demo exports every op, runs it in ONNX Runtime and compares the results bit for bit."""
    said = fork(python, package / "demo.py", "gallery.png", cwd=tmp_path)
    assert said.count("agree bit for bit") == len(OPS)
    assert (tmp_path / "gallery.png").stat().st_size > 50_000


@pytest.mark.slow
def test_calls_of_the_package_leak_no_memory(python: Path, package: Path) -> None:
    found = leaks.ask("gallery", python)
    assert len(found) == 12
    assert not leaks.grown(found)


@pytest.mark.parametrize("op", OPS)
def test_an_op_is_short_and_uses_nothing_private(op: str) -> None:
    files = [GALLERY / "csrc" / f"{op}.cpp", GALLERY / "src" / "myops_gallery" / f"{op}.py"]
    text = "".join(file.read_text() for file in files)
    assert len(text.splitlines()) < 200
    assert set(re.findall(r'#include "(.*)"', text)) == {"myops/op.h"}
    assert not re.search(r"myops\._|from myops(\.\w+)* import _|torch/|ATen", text)


def test_every_op_of_the_package_is_tested_here() -> None:
    assert {file.stem for file in (GALLERY / "csrc").glob("*.cpp")} == set(OPS)
