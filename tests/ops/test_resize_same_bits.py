"""Random calls of resize have the same bits with other kernels, and with stores past the caches."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import warm

ROOT = Path(__file__).parents[2]
CALLS = ROOT / "tests" / "resize_calls.py"
KERNELS = sorted(
    {
        name
        for path in ROOT.glob("csrc/ops/resize/**/*.h")
        if "cuda" not in path.parts
        for name in re.findall(r'kernel_enabled\("(resize\.\w+)"\)', path.read_text())
    }
)
VARIANTS = {
    "no special kernels": {"MYOPS_DISABLE_KERNEL": ",".join(KERNELS)},
    # Of small results, too.
    "non-temporal stores": {"MYOPS_STREAMING_STORES": "1", "MYOPS_CACHED_BYTES": "4096"},
    "plain stores": {"MYOPS_STREAMING_STORES": "0", "MYOPS_CACHED_BYTES": "4096"},
}


def lines(seed: int, **variables: str) -> list[str]:
    environment = {**os.environ, **variables}
    done = warm.run(CALLS, seed, 2000, env=environment, without_myops=True)
    assert done.returncode == 0, (variables, done.stdout[-1000:], done.stderr)
    return done.stdout.splitlines()


@pytest.mark.parametrize("seed", [1, 2])
def test_results_have_the_same_bits(seed: int) -> None:
    expected = lines(seed)
    assert len(expected) == 2000
    assert len({line.rpartition(" ")[2] for line in expected}) > 1900
    for name, variables in VARIANTS.items():
        for got, wanted in zip(lines(seed, **variables), expected, strict=True):
            assert got == wanted, name


def test_the_names_of_the_kernels_are_found() -> None:
    assert {"resize.planes", "resize.few_pixels", "resize.lanes"} <= set(KERNELS)
