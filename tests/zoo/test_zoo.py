"""The zoo: networks that hurt exporters, right at every size or refused with a reason.

docs/zoo.md has all of them, with both exporters; `make zoo` writes it. Here the
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
import myops.ort
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
def test_networks_are_right_at_every_size_or_refused(case: Case, exporter: str) -> None:
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


_RESIZED = ("BiRefNet", "EDVR", "BasicVSR++", "Depth Anything", "SegFormer")


@pytest.mark.parametrize(
    "name", [_RESIZED[0], *(pytest.param(item, marks=pytest.mark.slow) for item in _RESIZED[1:])]
)
def test_networks_are_right_with_our_resize(name: str) -> None:
    case = next(case for case in CASES if case.name == name)
    model = _model(name)
    options: dict[str, Any] = {"skip_checks": ["numbers"], "register_interpolate": True}
    exported = running.export(case, model, "torchscript", "myops", **options)
    assert "Resize" in {node.op_type for node in exported.graph.node if node.domain == "myops"}
    running.checked(case, model, exported)


@functools.cache
def _model(name: str) -> Any:
    return next(case for case in CASES if case.name == name).model()


def test_each_network_has_twelve_other_sizes() -> None:
    for case in CASES:
        assert len(set(case.sizes)) == 12, case.name
        assert case.example not in case.sizes
        images = [size for size in case.sizes if len(size) > 1]
        assert any(size[-2] != size[-1] for size in images), case.name


def test_the_comparison_finds_a_wrong_file() -> None:
    """A weight that is off, and values that are not those of the custom nodes."""
    case = next(case for case in CASES if case.name == "CenterNet")
    model = _model(case.name)
    exported = running.export(case, model, "torchscript", "myops", skip_checks=["numbers"])
    wrong = onnx.ModelProto()
    wrong.CopyFrom(exported)
    weight = max(wrong.graph.initializer, key=lambda item: len(item.raw_data))
    weight.raw_data = (np.frombuffer(weight.raw_data, np.float32) * np.float32(1.2)).tobytes()
    with pytest.raises(AssertionError, match="CenterNet at"):
        running.checked(case, model, wrong, sizes=1)
    nodes = list(running._custom_nodes(exported))
    shown = running._shown(exported, nodes)
    fed = running.feeds(exported, case.made(case.example))
    values = dict(
        zip([item.name for item in shown.graph.output],
            myops.ort.session(shown).run(None, fed), strict=True)
    )  # fmt: skip
    running._same_bits(exported, nodes, {**values, **fed})
    name = nodes[0][0].output[0]
    values[name] = np.nextafter(values[name], np.float32(np.inf))
    with pytest.raises(AssertionError, match="other bits"):
        running._same_bits(exported, nodes, {**values, **fed})


@pytest.mark.slow
def test_simplify_removes_most_nodes_of_a_trace() -> None:
    case = next(case for case in CASES if case.name == "Swin")
    model = _model(case.name)
    exported = running.export(case, model, "torchscript", "myops", skip_checks=["numbers"])
    simplified = myops.onnx.simplify(exported).model
    assert 2 * len(simplified.graph.node) < len(exported.graph.node)
    running.checked(case, model, simplified)


def test_the_page_lists_the_networks() -> None:
    """A network that is added or renamed needs `make zoo`."""
    page = (Path(__file__).parents[2] / "docs" / "zoo.md").read_text()
    named = re.findall(r"^\| ([^|]+?) \| (?:dynamo|torchscript) \|", page, re.M)
    assert set(named) == {case.name for case in CASES}
    assert torch.__version__.partition("+")[0] in page
