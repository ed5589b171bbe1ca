"""Numbers that decide a shape, which another process writes while a call runs.

The process writes into shared memory, so that it needs no lock of Python. Each result must be that
of the numbers at one moment: if a call read them twice, the kernel could write beyond the memory of
the result.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from runtimes import feeds, node_model

import myops
import myops.ort
from myops import _numpy_call

X = np.random.default_rng(0).standard_normal((1, 2, 6, 9)).astype(np.float32)
CROP = {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"}
# The input, its dtype, its numbers and what they become, and the attributes.
LISTS: dict[str, tuple[int, str, list[float], list[float], dict[str, Any]]] = {
    "scales": (2, "float32", [1, 3], [40, 2], {"axes": [2, 3], "mode": "linear"}),
    "sizes": (3, "int64", [5, 7], [300, 8], {"axes": [2, 3], "mode": "cubic"}),
    "roi": (1, "float64", [0, 0.1, 1, 0.9], [0.5, 0, 0.6, 1], {**CROP, "axes": [2, 3]}),
}


KINDS = {"float32": "f", "float64": "d", "int64": "q"}  # of the module struct

# Starts quickly, because it needs neither torch nor NumPy.
WRITER = """
import json, mmap, struct, sys
path, kind, values = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
file = open(path, "r+b")
memory = mmap.mmap(file.fileno(), 0)
size = struct.calcsize(kind)
numbers = [[struct.pack(kind, value) for value in item] for item in values]
while True:
    for item in numbers:
        for index, number in enumerate(item):
            memory[index * size : (index + 1) * size] = number
"""


@contextlib.contextmanager
def written(
    file: Path, dtype: str, before: list[float], after: list[float]
) -> Iterator[np.ndarray]:
    """An array that another process writes continuously."""
    np.array(before, dtype).tofile(file)
    numbers = np.memmap(file, dtype, "r+")
    arguments = (str(file), KINDS[dtype], json.dumps([before, after]))
    writer = subprocess.Popen([sys.executable, "-c", WRITER, *arguments])
    try:
        while np.array_equal(numbers, np.array(before, dtype)):
            assert writer.poll() is None
        yield numbers
    finally:
        writer.kill()
        writer.wait()


def calls(index: int, attributes: dict[str, Any]) -> dict[str, Callable[[Any], np.ndarray]]:
    """For each way to call resize, a function from a list of numbers to the result."""

    def place(numbers: Any) -> list[Any]:
        inputs: list[Any] = [None, None, None, None]
        if index == 1:
            inputs[3] = np.array([20, 15], np.int64)
        inputs[index] = numbers
        return inputs

    def tensors(numbers: Any) -> list[torch.Tensor | None]:
        return [None if item is None else torch.from_numpy(item) for item in place(numbers)[1:]]

    x = torch.from_numpy(X)
    names = ("roi", "scales", "sizes")
    example = np.array(LISTS[names[index - 1]][2], LISTS[names[index - 1]][1])
    inputs = [X, *place(example)[1:]]
    session = myops.ort.session(_dynamic(node_model("resize", inputs, attributes)))
    fed = feeds("resize", inputs)

    def direct(numbers: Any) -> np.ndarray:
        return myops.resize(x, **dict(zip(names, tensors(numbers), strict=True)), **attributes)

    def differentiable(numbers: Any) -> np.ndarray:
        leaf = x.clone().requires_grad_()
        given = dict(zip(names, tensors(numbers), strict=True))
        return myops.resize(leaf, **given, **attributes).detach()

    def ort(numbers: Any) -> np.ndarray:
        return session.run(None, {**fed, names[index - 1]: numbers})[0]

    return {
        "direct": direct,
        "dispatcher": lambda n: torch.ops.myops.resize(x, *tensors(n), **attributes),
        "autograd": differentiable,
        "numpy": lambda n: _numpy_call.call("resize", [X, *place(n)[1:]], attributes)[0],
        "onnxruntime": ort,
    }


def _dynamic(model: Any) -> Any:
    """The same model for a result of any length."""
    for output in model.graph.output:
        for axis, dim in enumerate(output.type.tensor_type.shape.dim):
            dim.dim_param = f"length_{axis}"
    return model


@pytest.mark.parametrize("way", ["direct", "dispatcher", "autograd", "numpy", "onnxruntime"])
@pytest.mark.parametrize("name", list(LISTS))
def test_results_use_the_numbers_of_one_moment(name: str, way: str, tmp_path: Path) -> None:
    index, dtype, before, after, attributes = LISTS[name]
    run = calls(index, attributes)[way]
    # The other process may have written only some of the numbers.
    mixed = itertools.product(*zip(before, after, strict=True))
    legal = {np.asarray(run(np.array(numbers, dtype))).tobytes() for numbers in mixed}
    assert len(legal) == 2 ** len(before)
    results: set[bytes] = set()
    with written(tmp_path / "numbers", dtype, before, after) as numbers:
        end = time.monotonic() + 60  # on a busy machine the writer may wait for its turn
        while len(results) < 2 and time.monotonic() < end:
            results |= {np.asarray(run(numbers)).tobytes() for _ in range(400)}
    assert results <= legal
    assert len(results) > 1, "nobody has written"
