"""Names of outputs from the keys of a dict, and arguments that forward takes by name."""

from __future__ import annotations

import collections
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from myops.onnx import export

EXPORTERS = ["dynamo", "torchscript"]
X = torch.arange(6, dtype=torch.float32).reshape(2, 3) / 10


pytestmark = pytest.mark.usefixtures("no_warnings")


def outputs(model: Any, exporter: str, **settings: Any) -> list[str]:
    return [item.name for item in export(model, (X,), exporter=exporter, **settings).graph.output]


class Returns(torch.nn.Module):
    def __init__(self, make: Any) -> None:
        super().__init__()
        self.make = make
        self.line = torch.nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> Any:
        return self.make(self, x)


RESULTS: dict[str, tuple[Any, list[str]]] = {
    "dict": (lambda m, x: {"scores": x + 1, "boxes": x * 2}, ["scores", "boxes"]),
    "OrderedDict": (lambda m, x: collections.OrderedDict(b=x + 1, a=x * 2), ["b", "a"]),
    "inner lists": (lambda m, x: {"pair": (x + 1, x * 2), "c": x.exp()}, ["pair_0", "pair_1", "c"]),
    "inner dicts": (lambda m, x: {"a": {"b": x.exp(), "c": [x + 1]}}, ["a_b", "a_c_0"]),
    "an inner value has the name": (lambda m, x: {"y": m.line(x).mean(), "mean": x.exp()},
                                    ["y", "mean"]),
    "an output has the name": (lambda m, x: {"exp": x + 1, "add": x.exp()}, ["exp", "add"]),
}  # fmt: skip


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("case", RESULTS)
def test_outputs_are_named_by_the_keys(case: str, exporter: str) -> None:
    make, expected = RESULTS[case]
    assert outputs(Returns(make), exporter) == expected


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_keys_that_make_no_names(exporter: str) -> None:
    """Those of an input or a weight, and what is no identifier, stay as torch names them."""
    model = Returns(lambda m, x: {"x": m.line(x), "line.weight": x + 1, "a b": x.exp(), "c": x * 2})
    first, *_, last = outputs(model, exporter)
    assert first != "x"
    assert last == "c"


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_given_names_come_first(exporter: str) -> None:
    model = Returns(lambda m, x: {"a": x + 1, "b": x * 2, "first": x.exp()})
    assert outputs(model, exporter, output_names=["first"])[:2] == ["first", "b"]
    assert outputs(model, exporter, output_names=["p", "q", "a"]) == ["p", "q", "a"]


class Pair:
    def __init__(self, items: Any) -> None:
        self.items = items


pytree.register_pytree_node(
    Pair, lambda pair: (list(pair.items), None), lambda items, _: Pair(items),
    serialized_type_name="test_export_outputs.Pair",
)  # fmt: skip


def test_a_class_without_names() -> None:
    """pytree cannot say where it holds what."""
    assert len(outputs(Returns(lambda m, x: {"a": Pair([x + 1, x * 2])}), "dynamo")) == 2


class ByName(torch.nn.Module):
    def forward(
        self, x: torch.Tensor, flag: bool = True, *, factor: Any = 2.0, bias: Any = None
    ) -> Any:
        y = x * factor if flag else x
        return y if bias is None else y + bias


class AnyName(torch.nn.Module):
    def forward(self, x: torch.Tensor, **others: torch.Tensor) -> Any:
        return x * others["factor"] + others["bias"]


class AfterDefault(torch.nn.Module):
    def forward(self, x: torch.Tensor, flag: bool = True, bias: Any = None) -> Any:
        return x + bias if flag else x


BIAS, FACTOR = torch.ones(3), torch.tensor(3.0)
CALLS: list[tuple[type[torch.nn.Module], Mapping[str, Any], list[str]]] = [
    (ByName, {}, ["x"]), (ByName, {"factor": FACTOR}, ["x", "factor"]),
    (ByName, {"bias": BIAS}, ["x", "bias"]),
    (ByName, {"bias": BIAS, "factor": FACTOR}, ["x", "factor", "bias"]),
    (ByName, {"bias": BIAS, "flag": False}, ["x", "bias"]),
    (AnyName, {"bias": BIAS, "factor": FACTOR}, ["x", "others_bias", "others_factor"]),
    (AfterDefault, {"bias": BIAS}, ["x", "bias"]),
]  # fmt: skip


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("number", range(len(CALLS)))
def test_arguments_by_name(number: int, exporter: str) -> None:
    """Also where parameters before them are not given. (The file is compared with PyTorch.)"""
    model, kwargs, expected = CALLS[number]
    constants = ["flag"] if "flag" in kwargs else []
    made = export(model(), (X,), kwargs=kwargs, exporter=exporter, constants=constants)
    assert [item.name for item in made.graph.input] == expected


def test_forward_is_as_before() -> None:
    model = ByName()
    export(model, (X,), kwargs={"bias": BIAS}, exporter="torchscript")
    assert "forward" not in vars(model)


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("names", [(["0"], ["1"]), (["3"], ["2", "0"]), (["_0"], ["0", "5"])])
def test_names_may_be_digits(names: tuple[list[str], list[str]], exporter: str) -> None:
    """TorchScript numbers its values, and refuses such names or does not apply them."""
    model = Returns(lambda m, x: (m.line(x.exp()).tanh() - 1, x.cos()))
    made = export(model, (X,), exporter=exporter, input_names=names[0], output_names=names[1],
                  dynamic_axes={names[0][0]: {0: "n"}})  # fmt: skip
    graph = made.graph
    assert [item.name for item in graph.input] == names[0]
    assert [item.name for item in graph.output][: len(names[1])] == names[1]
    assert graph.input[0].type.tensor_type.shape.dim[0].dim_param == "n"
