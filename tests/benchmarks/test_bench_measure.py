"""The order of candidates and their samples. No test reads a clock: times are given."""

from __future__ import annotations

import mmap

import pytest

from benchmarks import measure, system
from benchmarks.case import Candidate
from benchmarks.measure import Plan, Sample, is_due, rotated, summarise


def candidate(name: str = "one", calls: list[str] | None = None) -> Candidate:
    log = [] if calls is None else calls
    return Candidate(name, lambda: log.append(name), lambda _: [], "given")


def test_every_candidate_is_first_once() -> None:
    orders = [rotated(4, turn) for turn in range(4)]
    assert [order[0] for order in orders] == [0, 1, 2, 3]
    assert all(sorted(order) == [0, 1, 2, 3] for order in orders)


@pytest.mark.parametrize(("wanted", "turns"), [(15, range(15)), (3, [0, 5, 10]), (1, [0])])
def test_few_samples_are_spread_over_the_rounds(wanted: int, turns: range | list[int]) -> None:
    taken = 0
    when = []
    for turn in range(30):
        if is_due(turn, 15, wanted, taken, taken):
            when.append(turn)
            taken += 1
    assert when == list(turns)


def test_disturbed_samples_are_repeated_a_few_times() -> None:
    assert is_due(15, 15, wanted=15, taken=15, clean=14)
    assert not is_due(15, 15, wanted=15, taken=15, clean=15)
    assert not is_due(29, 15, wanted=3, taken=6, clean=0)


def test_disturbed_samples_are_ignored() -> None:
    samples = [Sample(1.0, 0, 0.0), Sample(9.0, 0, 0.5), Sample(2.0, 0, 0.05), Sample(3.0, 4, 0.01)]
    found = summarise(candidate(), samples)
    assert (found.seconds, found.clean, found.taken, found.disturbed) == (2.0, 3, 4, False)


def test_a_row_with_disturbed_samples_only_is_marked() -> None:
    samples = [Sample(1.0, 0, 0.3), Sample(9.0, 0, 0.9), Sample(2.0, 0, 0.2), Sample(3.0, 0, 0.4)]
    found = summarise(candidate(), samples)
    assert (found.seconds, found.clean, found.disturbed) == (2.0, 0, True)  # of 2, 1 and 3


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Each reading of the clock is a millisecond later; no candidate waits for a core."""
    now = [0]

    def tick() -> int:
        now[0] += 1_000_000
        return now[0]

    monkeypatch.setattr(measure.time, "perf_counter_ns", tick)
    monkeypatch.setattr(measure.time, "perf_counter", lambda: tick() / 1e9)
    monkeypatch.setattr(system, "settle", lambda: None)
    monkeypatch.setattr(system, "queue_delay", lambda: 0)
    return now


def test_candidates_take_turns(clock: list[int]) -> None:
    calls: list[str] = []
    plan = Plan(rounds=2, sample=0.0009, budget=1.0)
    measure.measure([candidate("a", calls), candidate("b", calls)], plan)
    # A call and its five timed ones to calibrate; then each sample is an untimed call and one more.
    assert calls == ["a"] * 6 + ["b"] * 6 + ["a", "a", "b", "b"] + ["b", "b", "a", "a"]


def test_short_calls_are_repeated(clock: list[int]) -> None:
    calls: list[str] = []
    (found,) = measure.measure([candidate("a", calls)], Plan(rounds=1, sample=0.0039, budget=1.0))
    assert len(calls) == 6 + 1 + 4
    assert found.seconds == pytest.approx(0.001 / 4)


def test_slow_candidates_get_few_samples(clock: list[int]) -> None:
    (found,) = measure.measure([candidate()], Plan(rounds=15, sample=0.0009, budget=0.0101))
    assert found.taken == 5  # 0.01 s, at two calls of 0.001 s for a sample
    (found,) = measure.measure([candidate()], Plan(rounds=15, sample=0.0009, budget=0.0))
    assert found.taken == measure.FEWEST


def test_waiting_for_a_core_marks_a_sample(
    clock: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    delays = iter(range(0, 10**9, 100_000))  # 0.1 ms in each sample of 1 ms
    monkeypatch.setattr(system, "queue_delay", lambda: next(delays))
    (found,) = measure.measure([candidate()], Plan(rounds=4, sample=0.0009, budget=1.0))
    assert (found.clean, found.taken, found.disturbed) == (0, 8, True)


def test_page_faults_are_counted() -> None:
    before = system.page_faults()
    with mmap.mmap(-1, 64 << 20) as memory:  # new pages; an allocator may hand out touched ones
        memory[::4096] = b"x" * (len(memory) // 4096)
    assert system.page_faults() > before
    assert system.queue_delay() >= 0
