"""Inputs of myops.onnx.export: numbers, sizes, dicts, scripted models, slices."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnx
import pytest
import torch
import torch.nn.functional as F
from node_models import operators, run_plain
from torch.utils._pytree import tree_leaves, tree_map

from myops.onnx import ExportCheckError, ExportCheckWarning, export

EXPORTERS = ["dynamo", "torchscript"]
X = torch.arange(2 * 3 * 6 * 6, dtype=torch.float32).reshape(2, 3, 6, 6) / 100


pytestmark = pytest.mark.usefixtures("no_warnings")


def names(model: onnx.ModelProto) -> list[str]:
    return [item.name for item in model.graph.input]


class Scale(torch.nn.Module):
    def forward(self, x: Any, factor: Any, flag: bool = False) -> Any:
        return x * factor + 1 if flag else x * factor


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_numbers_become_inputs(exporter: str) -> None:
    cases = ((2.0, np.float32), (3, np.int64), (True, np.bool_))
    for number, dtype in cases[: 3 if exporter == "torchscript" else 1]:
        model = export(Scale(), (X, number), exporter=exporter)
        assert names(model) == ["x", "factor"]
        assert model.graph.input[1].type.tensor_type.shape.dim == []
        for other in (number, type(number)(0)):
            feeds = {"x": X.numpy(), "factor": np.array(other, dtype)}
            np.testing.assert_allclose(run_plain(model, feeds)[0], (X * other).numpy())


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_constants_are_built_in(exporter: str) -> None:
    model = export(Scale(), (X,), kwargs={"factor": 2.5}, exporter=exporter, constants=["factor"])
    assert names(model) == ["x"]
    np.testing.assert_allclose(run_plain(model, {"x": X.numpy()})[0], 2.5 * X.numpy())
    with pytest.raises(ValueError, match=r"no 'factr'\. Did you mean 'factor'"):
        export(Scale(), (X, 2.5), exporter=exporter, constants=["factr"])


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_bool_arguments_are_built_in_with_a_warning(exporter: str) -> None:
    """As in model(x, getloss=False); a Python branch cannot depend on an input."""
    for flag in (False, True)[: 2 if exporter == "torchscript" else 1]:
        with pytest.warns(ExportCheckWarning, match=f"flag={flag} is built into the model"):
            model = export(Scale(), (X, 2.0), kwargs={"flag": flag}, exporter=exporter)
        assert names(model) == ["x", "factor"]
        wanted = Scale()(X, 2.0, flag).numpy()
        feeds = {"x": X.numpy(), "factor": np.array(2, np.float32)}
        np.testing.assert_allclose(run_plain(model, feeds)[0], wanted)
    if exporter == "torchscript":
        export(Scale(), (X, 2.0), kwargs={"flag": True}, exporter=exporter, constants=["flag"])


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_a_loop_count_must_be_a_constant(exporter: str) -> None:
    class Repeat(torch.nn.Module):
        def forward(self, x: Any, times: int) -> Any:
            for _ in range(times):
                x = x + 1
            return x

    with pytest.raises((RuntimeError, ExportCheckError), match=r"constants=\['times'\]"):
        export(Repeat(), (X, 3), exporter=exporter)
    model = export(Repeat(), (X, 3), exporter=exporter, constants=["times"])
    assert list(operators(model)).count("Add") == 3


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_elements_of_a_size_become_inputs(exporter: str) -> None:
    class Enlarge(torch.nn.Module):
        def forward(self, x: Any, size: Any) -> Any:
            return F.interpolate(x, size=size, mode="nearest")

    size = torch.rand(1, 8, 9).shape[1:]
    assert isinstance(size, torch.Size)
    model = export(Enlarge(), (X, size), exporter=exporter)
    assert names(model) == ["x", "size_0", "size_1"]
    feeds = {"x": X.numpy(), "size_0": np.array(12), "size_1": np.array(7)}
    np.testing.assert_array_equal(run_plain(model, feeds)[0], Enlarge()(X, (12, 7)).numpy())
    if exporter == "torchscript":
        model = export(Enlarge(), (X, size), exporter=exporter, constants=["size"])
        assert names(model) == ["x"]
        assert run_plain(model, {"x": X.numpy()})[0].shape == (2, 3, 8, 9)


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_interpolate_to_the_size_of_another_input(exporter: str) -> None:
    class Like(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return F.interpolate(x, size=y.shape[2:], mode="bilinear") + y

    axes = {"y": {2: "height", 3: "width"}}
    model = export(Like(), (X, torch.rand(2, 3, 8, 9)), dynamic_axes=axes, exporter=exporter)
    y = torch.rand(2, 3, 11, 5)
    got = run_plain(model, {"x": X.numpy(), "y": y.numpy()})[0]
    np.testing.assert_allclose(got, Like()(X, y).numpy(), atol=1e-5)


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_assignment_to_a_slice_at_other_positions(exporter: str) -> None:
    class Paste(torch.nn.Module):
        def forward(self, preds: Any, crop: Any, y1: Any, x1: Any) -> Any:
            preds = preds.clone()
            y2, x2 = y1 + crop.shape[2], x1 + crop.shape[3]
            preds[:, :, y1:y2, x1:x2] += crop
            return preds

    crop = torch.rand(2, 3, 2, 3)
    model = export(Paste(), (X, crop, 1, torch.tensor(2)), exporter=exporter)
    assert names(model) == ["preds", "crop", "y1", "x1"]
    for y1, x1 in ((1, 2), (3, 0)):
        feeds = {"preds": X.numpy(), "crop": crop.numpy(), "y1": np.array(y1), "x1": np.array(x1)}
        np.testing.assert_allclose(run_plain(model, feeds)[0], Paste()(X, crop, y1, x1).numpy())


class Repeated(torch.nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.n = n
        self.conv = torch.nn.Conv2d(3, 3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(self.n):
            x = self.conv(x)
        return x


class Nested(torch.nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.inner = Repeated(n)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) * 2


def test_scripted_loops_stay_loops() -> None:
    """The graph is the same for two and three iterations; a trace has a node for each iteration."""
    scripted, traced = [], []
    x = torch.rand(1, 3, 10, 10)
    for n in (2, 3):
        module = Repeated(n)
        program = torch.jit.script(module)
        model = export(program, x, exporter="torchscript")
        np.testing.assert_allclose(
            run_plain(model, {"x": x.numpy()})[0], module(x).detach().numpy(), atol=1e-5
        )
        scripted.append([node.op_type for node in model.graph.node])
        traced.append([n.op_type for n in export(module, x, exporter="torchscript").graph.node])
        nested = export(torch.jit.script(Nested(n)), x, exporter="torchscript")
        assert [node.op_type for node in nested.graph.node].count("Loop") == 1
    assert scripted[0] == scripted[1]
    assert scripted[0].count("Loop") == 1
    assert traced == [["Conv"] * 2, ["Conv"] * 3]


def test_scripted_branches_keep_their_inputs() -> None:
    class Choose(torch.nn.Module):
        def forward(self, x: torch.Tensor, k: int, scale: float, flag: bool) -> torch.Tensor:
            if k > 2:
                x = x * scale
            if flag:
                x = x + k
            return x

    program = torch.jit.script(Choose())
    model = export(program, (X, 3, 1.5, True), exporter="torchscript")
    assert list(operators(model)).count("If") == 2
    for k, scale, flag in ((3, 2.5, True), (1, 2.5, False), (0, 0.0, True)):
        numbers = {"k": np.array(k), "scale": np.array(scale), "flag": np.array(flag)}
        feeds = {"x": X.numpy(), **numbers}
        wanted = Choose()(X, k, scale, flag).numpy()
        np.testing.assert_allclose(run_plain(model, feeds)[0], wanted, rtol=1e-6)
    with pytest.raises(ValueError, match=r'scripted module for exporter="dynamo".*"torchscript"'):
        export(program, (X, 3, 1.5, True))
    with pytest.raises(ValueError, match=r"constants: got .* for a scripted module"):
        export(program, (X, 3, 1.5, True), exporter="torchscript", constants=["k"])


class Mixed(torch.nn.Module):
    def forward(self, a: Any, b: Any, c: Any) -> Any:
        return b * 2 + c[:1], a


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_input_names_follow_the_parameters(exporter: str) -> None:
    """Also if keyword arguments are in another order, and if an input is an output."""
    given = {"c": torch.rand(4), "b": torch.rand(3)}
    model = export(Mixed(), (torch.rand(2),), kwargs=given, exporter=exporter)
    lengths = {i.name: i.type.tensor_type.shape.dim[0].dim_value for i in model.graph.input}
    assert lengths == {"a": 2, "b": 3, "c": 4}


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_elements_of_a_dict_become_inputs(exporter: str) -> None:
    class Named(torch.nn.Module):
        def forward(self, k: Any, d: Any) -> Any:
            return d["b"] * 2 + d["a"][:1] * k

    d = {"b": torch.rand(3), "a": torch.rand(4)}
    model = export(Named(), (torch.tensor(2.0), d), exporter=exporter)
    assert names(model) == ["k", "d_b", "d_a"]
    if exporter == "torchscript":  # torch's older way to give arguments by name
        model = export(Named(), (torch.tensor(2.0), {"d": d}), exporter=exporter)
        assert names(model) == ["k", "d_b", "d_a"]


DICTS: dict[str, tuple[Any, list[str]]] = {
    "keys": ({"image": 1, "mask": 2}, ["d_image", "d_mask"]),
    "nested": ({"a": {"b": 1, "c": [2, 3]}, "e": 4}, ["d_a_b", "d_a_c_0", "d_a_c_1", "d_e"]),
    "no names": ({"a b": 1, "c.d": 2}, ["d_0", "d_1"]),
    "ambiguous": ({"a": {"b": 1}, "a_b": 2}, ["d_0", "d_1"]),
    "in a list": ([{"a": 1}, {"b": 2}], ["d_0", "d_1"]),
}


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("kind", list(DICTS))
def test_inputs_have_the_names_of_keys(kind: str, exporter: str) -> None:
    """Each name belongs to its tensor: they have different lengths and factors."""

    class Sum(torch.nn.Module):
        def forward(self, d: Any) -> Any:
            return torch.stack([(10**n * x).sum() for n, x in enumerate(tree_leaves(d))]).sum()

    tree, expected = DICTS[kind]
    d = tree_map(lambda n: torch.arange(n, 2.0 * n), tree)
    model = export(Sum(), (d, {}) if isinstance(d, dict) else (d,), exporter=exporter)
    assert names(model) == expected
    feeds = dict(zip(expected, [x.numpy() for x in tree_leaves(d)], strict=True))
    (got,) = run_plain(model, feeds)
    np.testing.assert_allclose(got, Sum()(d).numpy())


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64])
@pytest.mark.parametrize("length", [1, 3])
def test_integers_that_torch_only_stores(tmp_path: Any, dtype: torch.dtype, length: int) -> None:
    """Checks need other lengths of the input, for which torch has no kernel in these dtypes."""

    class Half(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.float() * 0.5

    x, path = torch.arange(2, 2 + length).to(dtype), tmp_path / "x.onnx"
    axes = {"x": {0: "n"}}
    export(Half(), (x,), path, input_names=["x"], dynamic_axes=axes, exporter="dynamo")
    longer = torch.arange(7).to(dtype)
    (result,) = run_plain(onnx.load(path), {"x": longer.numpy()})
    assert np.array_equal(result, Half()(longer).numpy())


class Twice(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x + y, y


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize(("given", "text"), [
    ({"output_names": ["x", "z"]}, "output_names: got 'x', which is the name of an input; "
     "expected another name, or input_names that rename the input 'x'"),
    ({"output_names": ["z", "y"]}, "output_names: got 'y', which is the name of an input"),
    ({"input_names": ["a"], "output_names": ["a"]},
     "got 'a', which is the name of an input; expected another name: "),
    ({"output_names": ["z", "z"]}, "output_names: got 'z' twice, expected it once"),
    ({"output_names": ["", "z"]}, "output_names: got '', expected a name"),
    ({"input_names": ["x", ""]}, "input_names: got '', expected a name"),
    ({"output_names": ["p", "q", "r"]}, "output_names: got 3 names, expected at most 2"),
])  # fmt: skip
def test_names_that_a_graph_cannot_have(exporter: str, given: dict[str, Any], text: str) -> None:
    """One exporter renamed or dropped them without a word, the other blamed something else."""
    with pytest.raises(ValueError, match=re.escape(text)):
        export(Twice(), (X, X), exporter=exporter, **given)


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_outputs_may_have_the_names_of_renamed_inputs(exporter: str) -> None:
    model = export(
        Twice(), (X, X), exporter=exporter, input_names=["p", "q"], output_names=["x", "y"]
    )
    assert names(model) == ["p", "q"]
    assert [item.name for item in model.graph.output] == ["x", "y"]


def test_a_class_is_no_model() -> None:
    text = r"model: got the class ReLU, expected a module: ReLU\(\.\.\.\)"
    with pytest.raises(TypeError, match=text):
        export(torch.nn.ReLU, (torch.rand(3),))  # type: ignore[arg-type]
