"""Inputs on which no output depends: one exporter leaves them out, and a warning says so."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from node_models import run_plain

from myops.onnx import ExportCheckWarning, export

EXPORTERS = ["dynamo", "torchscript"]
X, Y, Z = (torch.rand(3, 4) for _ in range(3))


class Middle(torch.nn.Module):
    def forward(self, x: Any, y: Any, z: Any) -> Any:
        y = y + x  # and is not used
        return x - 2 * z


class InDict(torch.nn.Module):
    def forward(self, batch: Any, z: Any) -> Any:
        return batch["x"] - 2 * z


def exported(model: torch.nn.Module, *args: Any, **options: Any) -> tuple[Any, list[str]]:
    """The model and the warnings of the export."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = export(model, args, **options)
    return made, [str(w.message) for w in caught if w.category is ExportCheckWarning]


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("names", [None, ["x", "y", "z"], ["a", "b", "c"]])
def test_a_warning_names_an_unused_input(exporter: str, names: Any) -> None:
    """And no other input has its name."""
    model, said = exported(Middle(), X, Y, Z, exporter=exporter, input_names=names)
    names = names or ["x", "y", "z"]
    values = dict(zip(names, (X, Y, Z), strict=True))
    (text,) = said
    found = [item.name for item in model.graph.input]
    if exporter == "dynamo":
        assert found == names
        assert f"no output depends on the input {names[1]!r}. The file has it all the" in text
    else:
        assert found == [names[0], names[2]]
        assert f"the file has no input {names[1]!r}: no output depends on it, and" in text
        assert f"The inputs of the file: {names[0]!r}, {names[2]!r}." in text
    (got,) = run_plain(model, {name: values[name].numpy() for name in found})
    np.testing.assert_allclose(got, (X - 2 * Z).numpy(), atol=1e-6)


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("options", [{"verify": False}, {"skip_checks": "all"}])
def test_the_warning_does_not_need_the_checks(exporter: str, options: Any) -> None:
    batch = {"extra": Y, "x": X}
    model, said = exported(InDict(), batch, Z, exporter=exporter, **options)
    (text,) = said
    assert "'batch_extra'" in text
    assert "(it was not checked whether one should)" in text
    found = [item.name for item in model.graph.input]
    values = {"batch_extra": Y.numpy(), "batch_x": X.numpy(), "z": Z.numpy()}
    (got,) = run_plain(model, {name: values[name] for name in found})
    np.testing.assert_allclose(got, (X - 2 * Z).numpy(), atol=1e-6)


def test_an_input_of_a_random_model_is_named_once() -> None:
    class Noisy(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return x + torch.rand_like(x)

    _, said = exported(Noisy(), X, Y, exporter="torchscript")
    assert len([text for text in said if "'y'" in text]) == 1, said
