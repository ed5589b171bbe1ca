"""Compares the kernels of two builds, such as those of two compilers, in one process.

    python benchmarks/two_builds.py A/_numpy.so B/_numpy.so

Each case runs in turns on both, on one thread; the table has the median time of each and the median
of the ratios of neighbours: above 1, the second build is slower. The exit status is 1 where their
bits differ.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts" / "wheels"))
from call_values import Call, values


def cases() -> Iterator[Call]:
    """Cases of benchmarks/run.py that are hard to make fast, and some of them in other dtypes."""
    for length in (1000, 1_000_000):
        for dtype in ("float32", "bfloat16", "int64"):
            inputs = [values((length,), dtype, name) for name in "ab"]
            yield f"my_add {dtype} {length}", "my_add", inputs, {}
    for dtype in ("float32", "float16", "uint8"):
        for mode, shape, factor, antialias in (
            ("cubic", (1, 3, 256, 256), 3.0, False),
            ("linear", (1, 3, 540, 960), 2.0, False),
            ("nearest", (1, 64, 64, 64), 2.0, False),
            ("cubic", (1, 3, 540, 960), 0.5, True),
            ("linear", (1, 3, 500, 700), 1.7, False),
        ):
            x = values(shape, dtype, mode)
            sizes = np.array([*shape[:2], *(int(n * factor) for n in shape[2:])], np.int64)
            attributes = {"mode": mode, "antialias": antialias}
            title = f"resize {dtype} {mode} {shape} x{factor}"
            yield title, "resize", [x, None, None, sizes], attributes
            if dtype == "float32":
                grad = values(tuple(sizes), dtype, "grad")
                inputs = [grad, x, None, None, sizes]
                yield f"{title} backward", "resize_backward", inputs, attributes
    for dtype in ("float32", "float64", "float16"):
        for n, c, side, filters, groups in ((1, 64, 56, 64, 1), (2, 32, 40, 64, 4)):
            taps = groups * 9
            offset = (values((n, 2 * taps, side, side), "float64", "offset") * 2).astype(dtype)
            x = values((n, c, side, side), dtype, "x")
            weight = values((filters, c // groups, 3, 3), dtype, "weight")
            mask = values((n, taps, side, side), dtype, "mask")
            attributes = {"group": groups, "offset_group": groups, "pads": [1] * 4}
            title = f"deform {dtype} {c}x{side}x{side} groups {groups}"
            yield title, "deform_conv2d", [x, weight, offset, None, mask], attributes
            grad = values((n, filters, side, side), dtype, "grad")
            inputs = [grad, x, weight, offset, mask]
            yield f"{title} backward", "deform_conv2d_backward", inputs, attributes


def load(path: Path, package: str) -> dict[str, Any]:
    """The ops of a module `_numpy`, by name."""
    spec = importlib.util.spec_from_file_location(f"{package}._numpy", path)
    assert spec is not None
    assert spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {op.describe()["name"]: op for op in module.OPS}


def seconds(op: Any, inputs: list[Any], attributes: dict[str, Any], repeat: int) -> float:
    start = time.perf_counter()
    for _ in range(repeat):
        op.call(inputs, attributes, 1)
    return (time.perf_counter() - start) / repeat


def compared(
    first: Any, second: Any, call: Call, budget: float
) -> tuple[float, float, float, bool]:
    """Median seconds of both, the median ratio, and whether their bits are equal."""
    _, _, inputs, attributes = call
    results = [op.call(inputs, attributes, 1) for op in (first, second)]
    equal = all(a is b or a.tobytes() == b.tobytes() for a, b in zip(*results, strict=True))
    once = max(seconds(first, inputs, attributes, 1), 1e-7)
    repeat = max(1, int(2e-4 / once))
    found = []
    end = time.perf_counter() + budget
    while time.perf_counter() < end or len(found) < 5:
        pair = [seconds(op, inputs, attributes, repeat) for op in (first, second)]
        found.append(pair)
        first_time, second_time = (statistics.median(column) for column in zip(*found, strict=True))
    return first_time, second_time, statistics.median(b / a for a, b in found), equal


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each case")
    parser.add_argument("--only", default="", help="cases whose titles have this text")
    arguments = parser.parse_args()
    first, second = load(arguments.first, "first"), load(arguments.second, "second")
    print("| case | first | second | ratio | bits |\n|---|---|---|---|---|")
    ratios, different = [], 0
    for call in cases():
        if arguments.only in call[0]:
            a, b, ratio, equal = compared(first[call[1]], second[call[1]], call, arguments.seconds)
            ratios.append(ratio)
            different += not equal
            word = "equal" if equal else "**differ**"
            print(f"| {call[0]} | {a * 1e6:.0f} us | {b * 1e6:.0f} us | {ratio:.2f} | {word} |")
    print(f"\ngeometric mean of {len(ratios)} ratios: {statistics.geometric_mean(ratios):.3f}")
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())
