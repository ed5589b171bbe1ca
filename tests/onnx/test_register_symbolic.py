"""register_symbolic: one function, both exporters, compared with torch in ONNX Runtime."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from guard_models import Model
from node_models import operators, run_plain
from register_models import assert_equal, only_here, swish, write_swish

from myops.onnx import export
from myops.onnx import register_symbolic as register_it

EXPORTERS = ["dynamo", "torchscript"]
__all__ = ["only_here"]  # a fixture for every test


def asinh(g: Any, x: Any) -> Any:
    return g.op("Asinh", x)


def composed_asinh(g: Any, x: Any) -> Any:
    """log(x + sqrt(x^2 + 1)), for opsets that know no Asinh."""
    one = g.constant(np.array(1, g.dtype(x)))
    root = g.op("Sqrt", g.op("Add", g.op("Mul", x, x), one))
    return g.op("Log", g.op("Add", x, root))


def forward_asinh(x: torch.Tensor) -> torch.Tensor:
    return torch.asinh(x)


X = torch.linspace(0.1, 4, 12).reshape(3, 4)


@pytest.mark.parametrize(
    ("exporter", "opset"),
    [("torchscript", opset) for opset in (7, 8, 9, 13, 20, 22)]
    + [("dynamo", opset) for opset in (12, 20)],
)
def test_opset_ranges_select_the_function(exporter: str, opset: int) -> None:
    register_it("aten::asinh", composed_asinh, opset_range=(7, 8))
    register_it("aten::asinh", asinh, opset=9)
    module = Model(forward_asinh)
    model = export(module, X, exporter=exporter, opset_version=opset)
    assert model.opset_import[0].version == opset
    expected = {"Asinh"} if opset >= 9 else {"Mul", "Add", "Sqrt", "Log"}
    assert set(operators(model)) == expected
    assert_equal(model, module, 2 * X)


@pytest.mark.parametrize("dynamo", [True, False])
def test_plain_torch_export_uses_the_registration(dynamo: bool, tmp_path: Any) -> None:
    register_it("aten::asinh", lambda g, x: g.op("Neg", g.op("Asinh", g.op("Neg", x))))
    for version in (20,) if dynamo else (17, 20):
        path = tmp_path / "model.onnx"
        torch.onnx.export(
            Model(forward_asinh).eval(),
            (X,),
            path,
            dynamo=dynamo,
            opset_version=version,
            verbose=False,
        )
        model = onnx.load(path)
        assert list(operators(model)) == ["Neg", "Asinh", "Neg"]
        assert_equal(model, Model(forward_asinh), X)


def test_scripted_models_use_the_registration() -> None:
    register_it("aten::asinh", lambda g, x: g.op("Neg", g.op("Asinh", g.op("Neg", x))))

    class Scripted(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(2):
                x = torch.asinh(x)
            return x

    module = torch.jit.script(Scripted())
    model = export(module, X, exporter="torchscript")
    assert list(operators(model)).count("Neg") == 4
    assert_equal(model, module, X)


def test_outside_its_opset_range_torch_translates() -> None:
    register_it("aten::sigmoid", lambda g, x: g.refuse("never asked"), opset_range=(7, 8))
    for exporter in EXPORTERS:
        model = export(Model(lambda x: x.sigmoid()), X, exporter=exporter)
        assert list(operators(model)) == ["Sigmoid"]
        with pytest.raises(ValueError, match="never asked"):
            export(Model(lambda x: x.sigmoid()), X, exporter="torchscript", opset_version=8)


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_one_overload_is_registered(exporter: str) -> None:
    register_it("aten::add.Tensor", lambda g, a, b, alpha: g.op("Sub", a, g.op("Neg", b)))
    module = Model(lambda a, b: a + b)
    model = export(module, (X, X), exporter=exporter)
    assert list(operators(model)) == ["Neg", "Sub"]
    assert_equal(model, module, X, 2 * X)


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_the_registration_with_the_newest_opset_is_used(exporter: str) -> None:
    for number, low in ((1, 7), (3, 19), (2, 13)):
        register_it(
            "aten::asinh",
            lambda g, x, n=number: g.op("Mul", g.op("Asinh", x), g.constant(np.float32(n))),
            opset=low,
        )
    model = export(Model(forward_asinh), X, exporter=exporter, skip_checks=["numbers"])
    np.testing.assert_allclose(
        run_plain(model, {"x": X.numpy()})[0],
        3 * torch.asinh(X).numpy(), rtol=1e-6,
    )  # fmt: skip


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_no_registration_for_the_opset_is_an_error(exporter: str) -> None:
    register_it("myops_register_test::swish", write_swish, opset_range=(18, 19))
    text = "got an export to opset 20, but register_symbolic has it for opset 18 to 19 only"
    with pytest.raises(ValueError, match=text):
        export(Model(lambda x: swish(x)), X, exporter=exporter)


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_without_a_registration_the_error_names_it(exporter: str) -> None:
    text = "how to write the operator myops_register_test::swish .*register_symbolic"
    with pytest.raises(RuntimeError, match=text):
        export(Model(lambda x: swish(x)), X, exporter=exporter)


@pytest.mark.parametrize(
    ("name", "options", "text"),
    [
        ("aten::asinhh", {}, "no operator 'aten::asinhh'. Did you mean 'aten::asinh"),
        ("asinh", {}, "got 'asinh', expected \"namespace::name\""),
        ("nowhere::asinh", {}, "the namespace 'nowhere' is empty. Import or load the library"),
        ("aten::add.Tenzor", {}, "aten::add has no overload 'Tenzor', only Tensor"),
        ("aten::asinh", {"opset": 9, "opset_range": (7, 9)}, "got opset and opset_range"),
        ("aten::asinh", {"opset_range": (12, 9)}, "got opsets 12 to 9"),
        ("aten::asinh", {"opset": 3}, "got opsets 3 to"),
    ],
)
def test_wrong_arguments_are_refused(name: str, options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        register_it(name, asinh, **options)
    with pytest.raises(TypeError, match="got 3, expected a function"):
        register_it("aten::asinh", 3)  # type: ignore[arg-type]
