"""myops.onnx.export: dynamic axes, as dynamic_axes and as dynamic_shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from export_models import AXES, EXPORTERS, Enlarge, Twice, assert_runs, dims
from node_models import run_plain

import myops
from myops.onnx import export
from myops.onnx.exporting import multiples
from myops.onnx.exporting.recorded import Recorded

pytestmark = pytest.mark.usefixtures("no_warnings_at_all")


class Pyramid(torch.nn.Module):
    """Reduces the size by 16, then enlarges it and adds the features of each size."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.weight = torch.rand(3, 3, 4, 4, generator=generator) / 10

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        levels = [torch.conv2d(image, self.weight[..., :3, :3], stride=2, padding=1)]
        for _ in range(3):
            levels.append(torch.max_pool2d(levels[-1], 2))
        result = levels.pop()
        while levels:
            grown = torch.conv_transpose2d(result, self.weight, stride=2, padding=1)
            result = grown + levels.pop()
        return result


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_dynamic_shapes_with_both_exporters(enlarge: Enlarge, inputs: Any, exporter: str) -> None:
    height = torch.export.Dim("tall", min=2)
    forms = [
        {"image": {2: height, 3: "wide"}, "factor": None},
        ({2: "tall", 3: torch.export.Dim.DYNAMIC}, None),
    ]
    for shapes in forms:
        model = export(enlarge, inputs, dynamic_shapes=shapes, exporter=exporter)
        names = dims(model.graph.input[0])
        assert names[:3] == [2, 3, "tall"]
        assert isinstance(names[3], str)


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_axes_as_lists_and_keyword_arguments(exporter: str) -> None:
    x = torch.rand(2, 2, 4, 5)
    model = export(Twice(), (), kwargs={"x": x}, dynamic_axes={"x": [0, -1]}, exporter=exporter)
    names = dims(model.graph.input[0])
    assert names[1:3] == [2, 4]
    assert all(isinstance(names[axis], str) for axis in (0, 3))
    wide = torch.rand(3, 2, 4, 11)
    np.testing.assert_array_equal(run_plain(model, {"x": wide.numpy()})[0], Twice()(wide).numpy())


class Pair(torch.nn.Module):
    def forward(self, pair: list[torch.Tensor], shift: torch.Tensor) -> torch.Tensor:
        return myops.my_add(pair[0], pair[1]) + shift


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_names_of_nested_inputs_are_taken_in_order(exporter: str) -> None:
    example = ([torch.rand(3), torch.rand(3)], torch.rand(1))
    axes = {"a": {0: "n"}, "b": {0: "n"}}
    for given, wanted in ((["a", "b", "c"], ["a", "b", "c"]), (["a", "b"], ["a", "b", "shift"])):
        model = export(Pair(), example, input_names=given, dynamic_axes=axes, exporter=exporter)
        assert [item.name for item in model.graph.input] == wanted
        assert [dims(item) for item in model.graph.input] == [["n"], ["n"], [1]]


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_an_example_of_length_1_may_be_dynamic(enlarge: Enlarge, exporter: str) -> None:
    """torch.export treats length 1 as a constant, so it gets the example twice."""
    one = (torch.rand(1, 3, 8, 9), torch.tensor(2.0))
    model = export(enlarge, one, dynamic_axes=AXES, exporter=exporter)
    assert dims(model.graph.input[0]) == ["batch", 3, "height", "width"]
    assert_runs(model, enlarge, library=True)


def test_dynamic_axes_without_names_are_refused() -> None:
    given: Any = [{0: "n"}]
    with pytest.raises(ValueError, match="export: dynamic_axes: got list, expected a dict such as"):
        myops.onnx.export(torch.nn.Identity(), (torch.rand(3),), dynamic_axes=given)


class Grown(torch.nn.Module):
    def forward(self, x: torch.Tensor, past: Any) -> torch.Tensor:
        return torch.cat([past[0][0], x], 1)


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_unknown_names_are_refused_before_lengths_of_1(exporter: str) -> None:
    inputs = (torch.rand(1, 2), [(torch.rand(1, 3), torch.rand(1, 3))])
    text = r"got 'past_0_0', expected one of x, past_0, past_1\."
    with pytest.raises(ValueError, match=text):
        export(Grown(), inputs, dynamic_axes={"x": [0], "past_0_0": [0]}, exporter=exporter)


def test_a_dynamic_axis_that_must_be_1_is_refused() -> None:
    class Single(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            assert x.shape[0] == 1, "one image at a time"
            return x * 2

    with pytest.raises(ValueError, match=r"length 1 on axis 0, expected 2 .*one image at"):
        export(Single(), torch.rand(1, 4), dynamic_axes={"x": [0]})


@pytest.mark.parametrize("rows", [32, 16])  # a multiple, and the number itself
@pytest.mark.parametrize("exporter", EXPORTERS)
def test_lengths_declared_as_multiples(exporter: str, rows: int) -> None:
    """A U-shaped network, for which torch.export cannot prove otherwise that sizes fit."""
    axes = {"image": {2: "16*h", 3: "16*w"}}
    image = torch.rand(1, 3, rows, 48)
    model = export(Pyramid(), image, dynamic_axes=axes, exporter=exporter)
    assert dims(model.graph.input[0]) == [1, 3, "16*h", "16*w"]
    for size in ((16, 32), (64, 16), (80, 48)):
        image = torch.rand(1, 3, *size)
        with torch.no_grad():
            wanted = Pyramid()(image)
        got = run_plain(model, {"image": image.numpy()})[0]
        np.testing.assert_allclose(got, wanted.numpy(), atol=1e-5)
    with pytest.raises(ValueError, match="length 40 on axis 2, expected a multiple of 16"):
        export(Pyramid(), torch.rand(1, 3, 40, 48), dynamic_axes=axes, exporter=exporter)


def test_a_missing_multiple_is_suggested() -> None:
    text = r'say so with dynamic_axes=\{"image": \{2: "16\*h", 3: "16\*w"\}\}'
    axes = {"image": {2: "h", 3: "w"}}
    with pytest.raises(RuntimeError, match=text):
        export(Pyramid(), torch.rand(1, 3, 32, 48), dynamic_axes=axes)
    model = export(Pyramid(), torch.rand(1, 3, 32, 48), dynamic_axes=axes, exporter="auto")
    assert dims(model.graph.input[0]) == [1, 3, "h", "w"]


def test_the_example_of_multiples_names_the_axes_of_the_caller() -> None:
    said = "Not all values of n satisfy the generated guard"
    text = multiples.advice(said, Recorded(), [("tokens", 1), ("image", 3)])
    assert 'dynamic_axes={"tokens": {1: "32*n1"}, "image": {3: "32*w"}}' in text
    assert '"x"' not in multiples.advice(said, Recorded())


class Resized(torch.nn.Module):
    def forward(self, x: torch.Tensor, size: Any, other: Any = None) -> torch.Tensor:
        return myops.interpolate(x, size=size, mode="bicubic")


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("size", [[5, 7], (5, 7), torch.Size((5, 7))])
@pytest.mark.parametrize("constants", [[], ["size"]])
def test_names_of_axes_beside_numbers(exporter: str, size: Any, constants: list[str]) -> None:
    """torch takes a tuple of None for lengths, and counts constants among the inputs."""
    axes = {"x": {0: "batch", 2: "height", 3: "width"}}
    for args in ((torch.rand(2, 3, 8, 9), size), (torch.rand(2, 3, 8, 9), size, None)):
        model = export(Resized(), args, dynamic_axes=axes, constants=constants, exporter=exporter)
        assert dims(model.graph.input[0]) == ["batch", 3, "height", "width"]
        if exporter == "dynamo":  # a trace gives outputs names of their own
            assert dims(model.graph.output[0])[:2] == ["batch", 3]
        assert len(model.graph.input) == (1 if constants else 3)


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_names_of_multiples_beside_a_constant(exporter: str) -> None:
    class Scaled(torch.nn.Module):
        def forward(self, x: torch.Tensor, factor: float) -> torch.Tensor:
            return x * factor

    axes = {"x": {0: "n", 2: "32*h", 3: "4*w"}}
    args = (torch.rand(2, 3, 64, 64), 2.0)
    model = export(Scaled(), args, constants=["factor"], dynamic_axes=axes, exporter=exporter)
    assert dims(model.graph.input[0]) == ["n", 3, "32*h", "4*w"]
    if exporter == "dynamo":
        assert dims(model.graph.output[0]) == ["n", 3, "32*h", "4*w"]
