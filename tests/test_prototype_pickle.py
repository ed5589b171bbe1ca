"""Pickles of prototypes that a script defines, read in other processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

DEFINE = """
import copy, pickle, sys
import torch
import myops

clip = myops.prototype(
    lambda x: x * 2, name="pickled_op", domain="own.domain", types={"T": ["float32"]},
    inputs=[myops.Input("x", "T", ".")], outputs=[myops.Output("y", "T", ".")],
    shape="S... -> S...",
)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.op = clip

    def forward(self, x):
        return self.op(x)
"""
WRITE = """
assert copy.deepcopy(clip) is clip
for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
    assert pickle.loads(pickle.dumps(clip, protocol)) is clip
assert torch.jit.script(clip)(torch.ones(2)).tolist() == [2.0, 2.0]
assert torch.jit.script(Net())(torch.ones(2)).tolist() == [2.0, 2.0]
assert torch.compile(Net(), fullgraph=True, backend="eager")(torch.ones(2)).tolist() == [2.0, 2.0]
with open(sys.argv[1], "wb") as file:
    pickle.dump(clip, file)
"""
READ = """
with open(sys.argv[1], "rb") as file:
    op = pickle.load(file)
assert op(torch.ones(2)).tolist() == [2.0, 2.0]
"""


def _run(text: str, file: Path) -> subprocess.CompletedProcess[str]:
    script = file.with_suffix(".py")
    script.write_text(text)
    return subprocess.run([sys.executable, script, file], capture_output=True, text=True)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("pickle") / "op.pickle"
    result = _run(DEFINE + WRITE, file)
    assert result.returncode == 0, result.stderr
    return file


def test_a_process_that_has_defined_it(written: Path) -> None:
    result = _run(DEFINE + READ, written)
    assert result.returncode == 0, result.stderr


def test_a_process_that_has_not(written: Path) -> None:
    result = _run("import pickle, sys, torch" + READ, written)
    assert result.returncode != 0
    assert (
        "pickled_op: pickle: got a prototype of the domain 'own.domain' that this process has not "
        "defined, expected one that it has. Run the code that calls myops.prototype before"
    ) in result.stderr
