"""Which candidate is faster, and how the result is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import limits, scaling
from benchmarks.also._row import Row
from benchmarks.case import Target
from benchmarks.measure import Measurement, Sample
from benchmarks.random_shapes.result import Measured
from benchmarks.report import markdown, tables, text
from benchmarks.report.document import Document, Section
from benchmarks.result import Result, word
from benchmarks.scaling import Point

ROOT = Path(__file__).parents[2]


def measurement(name: str, side: Any, output: Any, seconds: float) -> Measurement:
    sample = Sample(seconds, 12.0, 0.0)
    return Measurement(name, side, output, seconds, 0.1, 12.0, 3, 3, False, [sample])


def result(*measurements: Measurement, target: Target | None = None) -> Result:
    return Result("resize cubic", "a", "1x1", 1, target, 100.0, 10.0, list(measurements))


FULL = result(
    measurement("peer slow", "peer", "allocated", 4.0),
    measurement("peer fast", "peer", "given", 2.0),
    measurement("numpy", "beside", "given", 0.1),
    measurement("conv", "partial", "given", 0.1),
    measurement("ours", "torch", "allocated", 0.5),
    measurement("ours, out=", "torch", "given", 1.0),
    measurement("node", "onnxruntime", "given", 1.6),
    target=Target(1.2, 2.0),
)


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [(0.99, "behind"), (1.19, "behind"), (1.196, "least"), (1.9, "least"), (2.0, "aim")],
)
def test_ratios_become_words(ratio: float, expected: str) -> None:
    assert word(ratio, Target(1.2, 2.0)) == expected


def test_without_a_target_there_is_no_word() -> None:
    assert word(0.1, None) == ""


def test_out_calls_are_compared_with_the_fastest_peer() -> None:
    verdict = FULL.verdict("torch")
    assert verdict is not None
    assert (verdict.ours.name, verdict.peer.name) == ("ours, out=", "peer fast")
    assert (verdict.ratio, verdict.word) == (2.0, "aim")


def test_allocating_calls_are_compared_with_allocating_peers() -> None:
    verdict = FULL.allocating("torch")
    assert verdict is not None
    assert (verdict.ours.name, verdict.peer.name, verdict.ratio) == ("ours", "peer slow", 8.0)


def test_without_a_peer_there_is_no_verdict() -> None:
    lonely = result(measurement("ours", "torch", "given", 1.0))
    assert lonely.verdict("torch") is None
    assert lonely.verdict("onnxruntime") is None
    assert text.summary_row(lonely)[2] == "-"


def document() -> Document:
    row = Row("x", 1, 1.25, "x", "at most", 1.1, "5 ms / 4 ms")
    machine = {"triad": 20.0, "triad in cache": 60.0, "fma": 100.0, "gemm": 90.0}
    points = [Point("my_add", "pixels", 10, 1.0), Point("my_add", "pixels", 100, 15.0)]
    return Document(
        {"cpu": "one"},
        {"torchvision": "No module named 'torchvision'"},
        {1: machine},
        [FULL],
        [Section("Question", "Why.", [row])],
        points,
    )


def test_documents_are_saved_and_read(tmp_path: Path) -> None:
    document().save(tmp_path / "all.json")
    assert Document.load(tmp_path / "all.json") == document()


def test_a_new_measurement_replaces_the_first() -> None:
    merged = document()
    again = result(measurement("ours", "torch", "given", 7.0))
    other = result(measurement("ours", "torch", "given", 8.0))
    other.name = "b"
    point = Point("my_add", "pixels", 100, 9.0)
    merged.update(Document({"cpu": "two"}, {}, {2: {"fma": 1.0}}, [again, other], [], [point]))
    assert merged.facts == {"cpu": "two"}
    assert list(merged.limits) == [1, 2]
    assert merged.results == [again, other]
    assert merged.also == document().also
    assert merged.scaling == [document().scaling[0], point]


def test_a_page_keeps_its_text_around_the_tables(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    names = ["machine", "score", "summary", "results", "limits", "scaling", "also", "peers"]
    names.append("questions")
    marked = "".join(f"<!-- begin {name} -->\nold\n<!-- end {name} -->\n\n" for name in names)
    page.write_text(f"# Mine\n\n{marked}Also mine.\n")
    markdown.write(document(), page)
    written = page.read_text()
    assert written.startswith("# Mine\n")
    assert written.endswith("Also mine.\n")
    assert "old" not in written
    assert "absent: No module named" in written
    assert "2.00x aim" in written
    assert "1.25x least" in written
    assert "**missed**" in written
    assert "1.50" in written  # steepness
    assert (tmp_path / "page_roofline.svg").stat().st_size > 1000
    assert (tmp_path / "page_scaling.svg").stat().st_size > 1000
    markdown.write(document(), page)
    assert page.read_text() == written


def test_long_tables_are_written_beside_the_page(tmp_path: Path) -> None:
    page, beside = tmp_path / "page.md", tmp_path / "page_tables.md"
    page.write_text("<!-- begin summary -->\n<!-- end summary -->\n")
    beside.write_text("# Tables\n\n<!-- begin peers -->\nold\n<!-- end peers -->\n")
    markdown.write(document(), page)
    assert "| resize cubic | 1 | 1 | 2.00x (2.00) | 1.25x (1.25) |" in page.read_text()
    assert "peer slow" not in page.read_text()
    assert beside.read_text().startswith("# Tables\n")
    assert "| peer slow | 4.00 s (2.00), 12 faults |" in beside.read_text()
    assert "old" not in beside.read_text()


def test_our_pages_have_a_place_for_every_part() -> None:
    pages = [ROOT / "docs" / name for name in ("performance.md", "performance_tables.md")]
    marked = "".join(page.read_text() for page in pages)
    full = document()
    full.random = [Measured("resize", 1, 2, 1, "1x1", "float32", 1.0, "torch", 2.0)]
    for name in markdown.parts(full) | tables.parts(full):
        assert marked.count(f"<!-- begin {name} -->") == 1, name


def test_parts_that_were_not_measured_stay() -> None:
    assert set(markdown.parts(Document())) == {"machine"}
    assert tables.parts(Document()) == {}
    assert markdown.replace_part("no marks", "results", "new") == "no marks"


def test_a_missing_marker_is_an_error() -> None:
    with pytest.raises(ValueError, match="results: expected its two markers once"):
        markdown.replace_part("<!-- begin results -->", "results", "new")


def test_results_behind_a_peer_are_bold() -> None:
    behind = result(
        measurement("peer", "peer", "given", 1.0),
        measurement("ours", "torch", "given", 2.0),
        target=Target(1.0, 1.5),
    )
    assert "**0.50x behind**" in tables.parts(Document(results=[behind]))["results"]
    assert text.score([behind]) == (
        "Of 1 numbers 0 reach the aim, 0 lie between least and aim, 1 below."
    )


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(2.0, "2.00 s"), (0.0123, "12.3 ms"), (456e-6, "456 us"), (1.5e-9, "1.50 ns")],
)
def test_durations_are_formatted(seconds: float, expected: str) -> None:
    assert text.duration(seconds) == expected


def test_steepness_is_the_largest_growth_for_one() -> None:
    def line(*costs: float) -> list[Point]:
        return [Point("op", "pixels", 10**i, cost * 10**i) for i, cost in enumerate(costs)]

    assert scaling.steepness(line(5.0, 2.0, 1.0)) == pytest.approx(0.5)
    assert scaling.steepness(line(5.0, 2.0, 3.0)) == pytest.approx(1.5)


def test_the_limit_is_the_slower_of_memory_and_arithmetic() -> None:
    machine = {"triad": 10.0, "triad nt": 20.0, "fma": 100.0}
    assert limits.memory_roof(machine) == 20.0
    assert limits.roof(machine, flops=1e9, size=40e9) == pytest.approx(2.0)
    assert limits.roof(machine, flops=400e9, size=40e9) == pytest.approx(4.0)


def test_the_program_that_measures_limits_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MEBIBYTES", 1)
    found = limits.measure_limits(1)
    assert set(found) <= set(limits.MEANING)
    assert {"read", "triad", "fma", "gemm"} <= set(found)
    assert all(value > 0 for value in found.values())
