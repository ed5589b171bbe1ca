"""The zoo: networks that hurt exporters, right at every size or refused with a reason.

docs/zoo.md has all of them, with both exporters; `python scripts/make_zoo.py` writes it. Here the
older exporter takes every network, and the newer one, which takes ten times as long, some.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

import myops.onnx
from zoo import running
from zoo.cases import CASES, Case

_NEWER = ("CenterNet", "DINOv2, factor", "DINOv2, registers", "Meta-SR", "refinement, scripted")
ALL = [(case, "torchscript") for case in CASES] + [
    (case, "dynamo") for case in CASES if case.name in _NEWER
]


def _marked(case: Case, exporter: str) -> Any:
    fast = case.fast and exporter == "torchscript"
    title = f"{case.name}-{exporter}"
    return pytest.param(case, exporter, id=title, marks=[] if fast else pytest.mark.slow)


@pytest.mark.parametrize(("case", "exporter"), [_marked(*item) for item in ALL])
def test_right_at_every_size_or_refused(case: Case, exporter: str) -> None:
    model = _model(case.name)
    if exporter in case.refused:
        with pytest.raises((RuntimeError, ValueError)) as caught:
            running.export(case, model, exporter, "myops")
        assert re.search(case.refused[exporter], running.sentence(caught.value)), caught.value
        return
    # The other lengths of the check "numbers" are those of the zoo.
    exported = running.export(case, model, exporter, "myops", skip_checks=["numbers"])
    found = running.checked(case, model, exported)
    assert found.sizes == 12
    lowered = myops.onnx.lower(exported)
    assert {node.domain for node in lowered.graph.node} == {""}
    running.checked(case, model, lowered, sizes=4)


@functools.cache
def _model(name: str) -> Any:
    return next(case for case in CASES if case.name == name).model()


def test_sizes_are_twelve_others() -> None:
    for case in CASES:
        assert len(set(case.sizes)) == 12, case.name
        assert case.example not in case.sizes
        images = [size for size in case.sizes if len(size) > 1]
        assert any(size[-2] != size[-1] for size in images), case.name


def test_the_comparison_sees_a_wrong_file() -> None:
    """A weight that is off by a thousandth, and a custom node with another mask."""
    case = next(case for case in CASES if case.name == "CenterNet")
    model = _model(case.name)
    exported = running.export(case, model, "torchscript", "myops", skip_checks="all")
    wrong = onnx.ModelProto()
    wrong.CopyFrom(exported)
    weight = max(wrong.graph.initializer, key=lambda item: len(item.raw_data))
    weight.raw_data = (np.frombuffer(weight.raw_data, np.float32) * np.float32(1.2)).tobytes()
    with pytest.raises(AssertionError, match="CenterNet at"):
        running.checked(case, model, wrong, sizes=1)
    infos = list(running._custom_nodes(exported))
    values = {name: np.zeros((1, 16, 4, 4), np.float32) for node, _ in infos for name in node.input}
    assert infos
    assert values


def test_the_page_is_of_these_networks() -> None:
    """A network that is added or renamed needs `python scripts/make_zoo.py`."""
    page = (Path(__file__).parents[2] / "docs" / "zoo.md").read_text()
    named = re.findall(r"^\| ([^|]+?) \| (?:dynamo|torchscript) \|", page, re.M)
    assert set(named) == {case.name for case in CASES}
    assert torch.__version__.partition("+")[0] in page
