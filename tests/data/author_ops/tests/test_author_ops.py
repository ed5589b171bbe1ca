"""Every family of the conformance suite, in every runtime, on ops unlike those of myops."""

import copy
import pickle
import subprocess
import sys

import pytest
import torch
from author_ops import cube, pick, top_k

from myops.testing import Case, checks

torch.manual_seed(0)
ROWS = torch.randn(4, 7)
TABLE = torch.randn(5, 3)


def slow_top_k(x, k=1):
    values, indices = torch.sort(x, dim=-1, descending=True, stable=True)
    return values[..., :k], indices[..., :k]


TOP_K = [
    Case((ROWS,), {"k": 3}, name="rows"),
    Case((torch.randn(2, 3, 5),), {"k": 5}, name="all"),
    Case((ROWS,), {"k": 9}, refused="top_k: k: got 9, expected at most 7", name="too_many"),
]
PICK = [
    Case((TABLE, torch.tensor([4, 0, 0, 2])), name="rows"),
    Case((TABLE, torch.tensor([1, 5])), refused="pick: index: got 5, expected 0 to 4",
         refused_by_numbers=True, name="behind"),
    Case((TABLE, torch.tensor([-1])), refused="pick: index: got -1", refused_by_numbers=True,
         name="before"),
]  # fmt: skip
CUBE = [Case((ROWS,), name="rows")]


def slow_pick(table, index):
    return torch.stack([table[i] for i in index.tolist()]) if len(index) else table[:0]


FOUND = [
    *checks(top_k, TOP_K, reference=slow_top_k),
    *checks(pick, PICK, reference=slow_pick),
    *checks(cube, CUBE, reference=lambda x: x**3),
]


@pytest.mark.parametrize("check", FOUND, ids=str)
def test_family(check):
    check()


@pytest.mark.parametrize("dynamic", [False, True])
def test_indices_are_integers_when_compiled(dynamic):
    compiled = torch.compile(lambda x: top_k(x, k=2), dynamic=dynamic, fullgraph=True)
    values, indices = compiled(ROWS)
    expected = torch.topk(ROWS, 2)
    assert indices.dtype == torch.int64
    assert torch.equal(values, expected.values)
    assert torch.equal(indices, expected.indices)


def test_copies_and_pickles_are_the_op():
    """So modules that have it can be copied, saved and sent to other processes."""

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.op = cube

    assert copy.copy(cube) is cube
    assert copy.deepcopy(Model()).op is cube
    assert pickle.loads(pickle.dumps(cube)) is cube
    load = "import sys, pickle, torch; print(pickle.loads(sys.stdin.buffer.read())(torch.ones(2)))"
    done = subprocess.run(
        [sys.executable, "-c", load], input=pickle.dumps(cube), capture_output=True
    )
    assert done.stdout.split() == [b"tensor([1.,", b"1.])"], done.stderr.decode()
