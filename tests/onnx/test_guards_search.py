"""Other lengths: which of them the search tries, and when it ends."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from guard_models import Model

from myops.onnx import ExportCheckWarning, export
from myops.onnx.guards import _exported, _lengths, other_lengths
from myops.onnx.guards._lengths import Group

pytestmark = pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")


def frozen(seed: int) -> tuple[dict[str, int], int, Callable[..., Any], set[int]]:
    """A computation on two lengths that an exporter may build in, and the lengths that the model
    takes."""
    generator = random.Random(seed)
    unit = generator.choice([1, 1, 2, 4, 7, 8, 14, 32])
    constant = generator.choice([3, 7, 14, 16, 32, 60, 100])
    example = {"h": unit * generator.randint(2, 9), "w": unit * generator.randint(2, 9)}
    ways: list[Callable[[int, int], Any]] = [
        lambda h, w: h // constant,
        lambda h, w: h % constant == 0,
        lambda h, w: w % constant,
        lambda h, w: h > constant,
        lambda h, w: w <= constant,
        lambda h, w: (h // constant) * (w // constant),
        lambda h, w: h > w,
        lambda h, w: h == w,
        lambda h, w: round(h / constant),
        lambda h, w: -(-w // constant),
    ]
    return example, unit, generator.choice(ways), {constant}


@pytest.mark.parametrize("tied", [False, True])
def test_the_search_finds_lengths_with_another_result(tied: bool) -> None:
    """For every way to compute with lengths, and for all conditions on lengths."""
    for seed in range(300):
        example, unit, compute, constants = frozen(seed)
        groups = [Group([((name, 0), length)]) for name, length in example.items()]
        before, seen = compute(*example.values()), set()

        def attempt(point: Any, example: Any = example, unit: int = unit,
                    compute: Any = compute, seen: Any = seen) -> bool:  # fmt: skip
            h, w = point["h", 0], point["w", 0]
            if h % unit or w % unit or (tied and h - example["h"] != w - example["w"]):
                return False
            seen.add(compute(h, w))
            return True

        def always(*point: Any) -> bool:
            return True

        assert _lengths.explore(groups, constants, attempt, always, always)
        possible = {
            compute(h, w)
            for h in range(unit, 260, unit)
            for w in ([h - example["h"] + example["w"]] if tied else range(unit, 260, unit))
            if w > 0 and min(h, w) > 1
        }
        assert seen - {before} or possible == {before}, seed


def test_the_search_changes_lengths_in_their_ratio() -> None:
    """A mask of a quarter of the size: the axes change neither alone nor by the same amount."""
    taken = []
    groups = [Group([(("x", 0), 16)]), Group([(("mask", 0), 4)])]

    def attempt(point: Any) -> bool:
        if point["x", 0] != 4 * point["mask", 0]:
            return False
        taken.append(point["x", 0])
        return True

    assert _lengths.explore(groups, [], attempt, lambda: True, lambda point: True)
    assert len(taken) > 2


def test_the_search_ends_for_a_model_with_one_length() -> None:
    assert not _lengths.explore(
        [Group([(("x", 0), 16)])], [], lambda point: False, lambda: True, lambda point: True
    )


def test_a_search_that_ran_out_of_time_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_lengths, "SECONDS", 0.05)
    x = torch.rand(1, 2, 64, 64)
    model = torch.nn.Sequential(*[torch.nn.Conv2d(2, 2, 9, padding=4) for _ in range(20)])
    with pytest.warns(ExportCheckWarning, match=r"only \d+ other lengths|no other lengths"):
        export(model, x, dynamic_axes={"input": {2: "h", 3: "w"}}, exporter="torchscript")


@pytest.mark.parametrize("power", [1, 2])
def test_a_run_is_no_longer_than_the_times_at_shorter_lengths_allow(
    power: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attention over an image (power 2): its time does not show at small lengths."""
    clock = SimpleNamespace(now=0.0)
    runs: list[tuple[int, float]] = []

    def forward(x: torch.Tensor) -> torch.Tensor:
        area = int(x.shape[1]) * int(x.shape[2])
        seconds = 1e-3 + (1e-6 * area if power == 1 else 2e-8 * area**2)
        clock.now += seconds
        runs.append((area, seconds))
        return x / 10000

    fake = SimpleNamespace(perf_counter=lambda: clock.now, perf_counter_ns=lambda: 0)
    for module in (other_lengths, _exported):
        monkeypatch.setattr(module, "time", fake)
    axes = {"x": {1: "h", 2: "w"}}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        export(Model(forward), torch.rand(1, 16, 24), dynamic_axes=axes, exporter="torchscript")
    texts = [str(item.message) for item in caught if item.category is ExportCheckWarning]
    assert max(area for area, _ in runs) > 10000
    assert max(seconds for _, seconds in runs) < 4
    assert clock.now < 35
    left_out = [text for text in texts if "none as large as x of shape" in text]
    assert len(texts) == len(left_out) == (power == 2), texts


def test_the_search_tries_only_declared_multiples() -> None:
    seen = []

    def forward(x: torch.Tensor) -> torch.Tensor:
        seen.append(tuple(x.shape[2:]))
        return F.avg_pool2d(x, 8)

    axes = {"x": {2: "8*h", 3: "8*w"}}
    export(Model(forward), torch.rand(1, 1, 16, 24), dynamic_axes=axes, exporter="torchscript")
    lengths = {int(n) for size in seen for n in size}
    assert len(lengths) >= 4
    assert not [n for n in lengths if n % 8]
