"""Random configurations of the benchmarks: how they are drawn, the references, the report."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import myops
from benchmarks.measure import Plan
from benchmarks.random_shapes import draw, run
from benchmarks.random_shapes.resize import problem as resize_problem
from benchmarks.random_shapes.result import Measured, summaries
from benchmarks.report import markdown, plots
from benchmarks.report.document import Document

ONCE = Plan(rounds=1, sample=0.0, budget=0.0)
SEED = 5


def small(kind: str, count: int) -> list[int]:
    """Numbers of configurations that run quickly."""

    def cost(shape: Any) -> int:
        if isinstance(shape, draw.Deform):
            return shape.samples // shape.groups * shape.filters // 10
        sizes = shape.size if isinstance(shape, draw.Resize) else ()
        return math.prod(shape.shape) + math.prod((*shape.shape[:2], *sizes))

    numbers = (n for n in itertools.count() if cost(draw.draw(kind, SEED, n)) < 60_000)
    return list(itertools.islice(numbers, count))


def test_a_configuration_depends_on_its_number_alone() -> None:
    for kind in draw.KINDS:
        drawn = [draw.draw(kind, 1, number) for number in range(30)]
        assert drawn == [draw.draw(kind, 1, number) for number in range(30)]
        assert len({str(item) for item in drawn}) > 25
        assert drawn != [draw.draw(kind, 2, number) for number in range(30)]


def test_random_configurations_cover_the_options() -> None:
    resizes = [draw.draw("resize", 3, number) for number in range(400)]
    assert all(isinstance(item, draw.Resize) for item in resizes)
    found: dict[str, set[Any]] = {"mode": set(), "dtype": set(), "antialias": set(),
                                  "align_corners": set(), "channels_last": set()}  # fmt: skip
    for item in resizes:
        for name, values in found.items():
            values.add(getattr(item, name))
        assert 1 <= item.shape[1] <= 256
        assert all(4 <= length <= 2000 for length in item.shape[2:])
        planes = math.prod(item.shape[:2])
        assert planes * (math.prod(item.shape[2:]) + math.prod(item.size)) <= draw.MOST_ELEMENTS
    assert found["mode"] == {"nearest", "nearest-exact", "linear", "bilinear", "bicubic",
                             "trilinear", "area"}  # fmt: skip
    assert found["dtype"] == {*draw.FLOATS, "uint8"}
    assert found["antialias"] == found["align_corners"] == found["channels_last"] == {True, False}
    factors = [o / n for item in resizes for n, o in zip(item.shape[2:], item.size, strict=True)]
    assert min(factors) < 0.2
    assert max(factors) > 6
    for number in range(200):
        deform = draw.draw("deform_conv2d", 3, number)
        assert min(deform.size) > 0
        assert deform.samples <= draw.MOST_SAMPLES
        channels = deform.shape[1]
        assert channels % deform.groups == channels % deform.offset_groups == 0
        assert deform.filters % deform.groups == 0


@pytest.mark.parametrize("kind", draw.KINDS)
def test_our_result_is_right_and_has_a_peer(kind: str) -> None:
    for number in small(kind, 4):
        (found,) = run.measured(kind, SEED, number, [1], ONCE)
        assert (found.kind, found.seed, found.number) == (kind, SEED, number)
        assert found.peer in ("torch", "torch in float32", "OpenCV", "OpenCV planes", "grid_sample",
                              "grid_sample in float32")  # fmt: skip


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic", "area"])
@pytest.mark.parametrize("size", [(3, 29), (11, 4), (7, 13)])
def test_the_reference_is_torch_in_float64(mode: str, size: tuple[int, int]) -> None:
    for settings in ({}, {"align_corners": True}, {"antialias": True},
                     {"align_corners": True, "antialias": True}):  # fmt: skip
        if settings and not mode.startswith("bi"):
            continue
        for backward in (False, True):
            shape = draw.Resize((2, 3, 7, 13), size, mode, "float64", backward=backward, **settings)
            problem = resize_problem(shape, 1)
            torch_candidate = next(c for c in problem.candidates if c.name == "torch")
            assert problem.error(torch_candidate) < 1e-6


def test_a_wrong_result_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    (number,) = small("my_add", 1)
    monkeypatch.setattr(myops, "my_add", lambda a, b: a + b)
    with pytest.raises(run.WrongResultError, match=rf"my_add of seed {SEED}, number {number}: "):
        list(run.measured("my_add", SEED, number, [1], ONCE))


def test_a_peer_with_a_wrong_result_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    (number,) = small("my_add", 1)
    assert len(list(run.measured("my_add", SEED, number, [1], ONCE))) == 1
    monkeypatch.setattr(torch, "add", lambda b, a, alpha: b + 3 * a)
    assert list(run.measured("my_add", SEED, number, [1], ONCE)) == []


def results() -> list[Measured]:
    return [
        Measured(kind, 1, number, threads, f"{kind} {number}", dtype, 1.0, "torch", ratio)
        for kind in draw.KINDS
        for threads in (1, 2)
        for number, (ratio, dtype) in enumerate(
            [(4.0, "float32"), (0.5, "float32"), (1.0, "bfloat16"), (0.96, "float16")]
        )
    ]


def test_summary_counts_wins_and_losses() -> None:
    found = list(summaries(results()))
    assert [(item.kind, item.threads) for item in found] == [
        (kind, threads) for kind in draw.KINDS for threads in (1, 2)
    ]
    assert found[0].geometric_mean == pytest.approx((4 * 0.5 * 1 * 0.96) ** 0.25)
    assert (found[0].below(1.0), found[0].below(0.95)) == (2, 1)
    assert [item.ratio for item in found[0].results] == [0.5, 0.96, 1.0, 4.0]


def test_the_worst_configurations_are_explained() -> None:
    (number,) = small("deform_conv2d backward", 1)
    found = list(run.measured("deform_conv2d backward", SEED, number, [1], ONCE))
    run.explain_worst(found)
    assert any("(W)" in step for step in found[0].plan)


def test_files_of_several_seeds_are_merged() -> None:
    document = Document(random=results())
    other = [replace(item, seed=item.seed + 1) for item in results()]
    document.update(Document(random=other))
    assert document.random == [*results(), *other]
    slower = [replace(item, ours=2 * item.ours) for item in other]
    document.update(Document(random=slower))
    assert document.random == [*results(), *slower]


def test_page_plot_and_json_are_written(tmp_path: Path) -> None:
    document = Document(random=results())
    document.save(tmp_path / "all.json")
    loaded = Document.load(tmp_path / "all.json")
    assert loaded.random == document.random
    part = markdown.parts(loaded)["random"]
    assert "| resize backward | 2 | 4 | 1.18x | 2 | 1 | 0.50, 0.96, 1.00, 4.00 |" in part
    plots.write(loaded, tmp_path, "p_")
    assert (tmp_path / "p_random.svg").stat().st_size > 1000


def test_the_time_limit_is_kept() -> None:
    assert run.run(1, 3, [1], minutes=0) == []
