"""The recordings of terminals in docs/casts/ show the present output of the commands."""

from __future__ import annotations

import importlib.util
import io
import re
from pathlib import Path
from types import ModuleType

import pytest
from rich.console import Console

from myops.onnx.matrix import Matrix

ROOT = Path(__file__).parents[1]
STALE = "a picture is out of date; run: make docs (or python scripts/record_casts.py {name})"


@pytest.fixture(scope="module")
def casts() -> ModuleType:
    path = ROOT / "scripts" / "record_casts.py"
    spec = importlib.util.spec_from_file_location("record_casts", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def without_numbers(words: list[str]) -> list[str]:
    """Rounding, versions and sizes of files differ between machines, and therefore line breaks
    too."""
    text = re.sub(r"\d+(\.\w+)*([e+-]\d+)*", "#", " ".join(words))
    return re.sub(r"[─\s]+", " ", text).split()


@pytest.fixture(scope="module")
def models(casts: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("casts")
    casts.write_models(folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", ["compare", "doctor"])
def test_commands_print_the_text_of_the_recordings(
    name: str, casts: ModuleType, models: Path
) -> None:
    picture = casts.words((casts.FOLDER / f"{name}.svg").read_text(encoding="utf-8"))
    assert len(picture) > 50
    now = casts.words(casts.record(name, models))
    assert without_numbers(picture) == without_numbers(now), STALE.format(name=name)


def test_the_recorded_matrix_equals_the_committed_one(casts: ModuleType) -> None:
    """Measuring takes a minute; docs/opset_matrix.json holds the same cells."""
    picture = casts.words((casts.FOLDER / "matrix.svg").read_text(encoding="utf-8"))
    (command,) = casts.CASTS["matrix"]
    assert command.endswith("--case 'bilinear*' --opsets 9-13")
    whole = Matrix.read(ROOT / "docs" / "opset_matrix.json")
    cells = [item for item in whole.cells
             if item.case.startswith("bilinear") and 9 <= item.opset <= 13]  # fmt: skip
    part = Matrix(cells, whole.title, whole.tolerance, versions=whole.versions)
    console = Console(record=True, width=casts.WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(part)
    expected = ["$", *command.split(), *casts.words(console.export_svg())]
    # (Where a style ends differs between a terminal's text and a console's.)
    assert "".join(picture) == "".join(expected), STALE.format(name="matrix")


def test_every_recording_is_made_by_make_docs(casts: ModuleType) -> None:
    assert sorted(item.stem for item in casts.FOLDER.iterdir()) == sorted(casts.CASTS)
    assert "scripts/record_casts.py" in (ROOT / "Makefile").read_text()
    shown = re.findall(r"docs/casts/(\w+)\.svg", (ROOT / "README.md").read_text())
    assert sorted(shown) == sorted(casts.CASTS)


def test_words_are_read_from_a_recording(casts: ModuleType) -> None:
    console = Console(record=True, width=40, file=io.StringIO(), force_terminal=True)
    console.print("a <b> & [bold]c[/]\nsecond  line")
    assert casts.words(console.export_svg(title="t")) == ["a", "<b>", "&", "c", "second", "line"]
