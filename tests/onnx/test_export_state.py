"""Models whose forward changes what they hold: buffers, attributes, lists and dicts.

The file computes what one call does with what the model holds at the export, and the export leaves
that as it was.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils import _pytree as pytree

import myops.ort
from myops._torch import module_state
from myops.onnx import ExportCheckWarning, compare, export

pytestmark = [
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
    pytest.mark.filterwarnings("ignore:ONNX Preprocess"),
    pytest.mark.filterwarnings("ignore:The tensor attribute"),
]
EXPORTERS = ["dynamo", "torchscript"]


class Holding(torch.nn.Module):
    """A function of a module and x; tensors become buffers."""

    def __init__(self, function: Callable[[Any, torch.Tensor], Any], **held: Any) -> None:
        super().__init__()
        self.function = function
        for name, value in held.items():
            if isinstance(value, torch.Tensor):
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(self, x)


def count(s: Any, x: torch.Tensor) -> Any:
    s.n += 1
    return x * s.n


def count_returned(s: Any, x: torch.Tensor) -> Any:
    s.n += 1
    return x * 1, s.n


def mean_returned(s: Any, x: torch.Tensor) -> Any:
    s.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
    return x - s.mean, s.mean


def nested(s: Any, x: torch.Tensor) -> Any:
    s.n += 1
    return {"x": [x * 1, (s.n, s.n + 1)]}


def cache(s: Any, x: torch.Tensor) -> Any:
    s.kv = torch.cat([s.kv[2:], x])
    return x + 1, s.kv


def growing(s: Any, x: torch.Tensor) -> Any:
    s.kv = torch.cat([s.kv, x])
    return x + 1, s.kv


def created(s: Any, x: torch.Tensor) -> Any:
    if "last" not in s._buffers:
        s.register_buffer("last", torch.zeros(3))
    s.last = s.last + x.sum(0)
    return x + s.last


def plain_count(s: Any, x: torch.Tensor) -> Any:
    s.k += 1
    return x + s.k


def plain_tensor(s: Any, x: torch.Tensor) -> Any:
    s.held["sum"] = s.held["sum"] + x
    return x + s.held["sum"]


def plain_in_place(s: Any, x: torch.Tensor) -> Any:
    s.held["sum"] += 1
    return x + s.held["sum"]


def listed(s: Any, x: torch.Tensor) -> Any:
    s.seen.append(x)
    return torch.cat(list(s.seen))


def held_none(s: Any, x: torch.Tensor) -> Any:
    s.past = x if s.past is None else torch.cat([s.past, x])
    return s.past * 2


MODELS: dict[str, tuple[Callable[[], Holding], str]] = {
    "in place": (lambda: Holding(count, n=torch.tensor(4.0)), "n"),
    "returned": (lambda: Holding(count_returned, n=torch.zeros((), dtype=torch.long)), "n"),
    "mean returned": (lambda: Holding(mean_returned, mean=torch.ones(3)), "mean"),
    "nested": (lambda: Holding(nested, n=torch.zeros(2)), "n"),
    "assigned": (lambda: Holding(cache, kv=torch.zeros(4, 3)), "kv"),
    "growing": (lambda: Holding(growing, kv=torch.zeros(1, 3)), "kv"),
    "created": (lambda: Holding(created), "last"),
    "plain": (lambda: Holding(plain_count, k=3), "k"),
    "plain tensor": (lambda: Holding(plain_tensor, held={"sum": torch.ones(2, 3)}), "held"),
    "plain in place": (lambda: Holding(plain_in_place, held={"sum": torch.ones(())}), "held"),
    "list": (lambda: Holding(listed, seen=[torch.zeros(1, 3)]), "seen"),
    "none": (lambda: Holding(held_none, past=None), "past"),
}
# torch.export refuses writes into a tensor that is no buffer.
NOT_TRACED = {("plain in place", "dynamo")}  # torch.export refuses it


def held(model: torch.nn.Module) -> Any:
    """Copies of all that the model holds, by name."""
    own = {name: x for name, x in vars(model).items() if name not in vars(torch.nn.Module())}
    return copy.deepcopy({**own, **model._buffers})


def same(one: Any, other: Any) -> bool:
    ours, theirs = pytree.tree_leaves(one), pytree.tree_leaves(other)
    return one.keys() == other.keys() and all(
        torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b
        for a, b in zip(ours, theirs, strict=True)
    )


def results(path: Path, x: torch.Tensor) -> list[np.ndarray]:
    session = myops.ort.session(path)
    return session.run(None, {session.get_inputs()[0].name: x.numpy()})


@pytest.mark.parametrize(
    ("name", "exporter"),
    [(name, one) for name in MODELS for one in EXPORTERS if (name, one) not in NOT_TRACED],
)
def test_the_file_is_one_call_and_the_model_as_before(
    name: str, exporter: str, tmp_path: Path
) -> None:
    make, changed = MODELS[name]
    model, x, path = make().eval(), torch.rand(2, 3), tmp_path / "model.onnx"
    before, objects = held(model), dict(model._buffers)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        export(model, x, path, exporter=exporter)
    said = [str(item.message) for item in caught if item.category is ExportCheckWarning]
    assert len(said) == 1
    assert said[0].startswith(f"export: forward changes {changed!r}. A file keeps nothing")
    assert same(held(model), before)
    assert all(model._buffers[key] is item for key, item in objects.items())
    wanted = pytree.tree_leaves(model(x.clone()))
    for got, want in zip(results(path, x), wanted, strict=True):
        np.testing.assert_allclose(got, want.numpy(), rtol=1e-6)


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_what_is_computed_once_is_no_state(
    exporter: str, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    """A grid that is kept for the next call, and a result that is kept to look at."""

    def function(s: Any, x: torch.Tensor) -> torch.Tensor:
        if s.grid is None:
            s.grid = torch.arange(3.0)
        if s.mask is None:
            s.mask = torch.ones(3)
        if len(s.cos) < x.shape[1]:
            s.register_buffer("cos", torch.arange(4.0).cos(), persistent=False)
        s.width, s.last = x.shape[1], x + s.grid * s.mask * s.cos[: x.shape[1]]
        return s.last * 2

    model, x = Holding(function, grid=None, width=0, cos=torch.ones(1)).eval(), torch.rand(2, 3)
    model.register_buffer("mask", None)
    export(model, x, tmp_path / "model.onnx", exporter=exporter)
    assert not [item for item in recwarn if item.category is ExportCheckWarning]
    assert (model.grid, model.mask, model.width, hasattr(model, "last")) == (None, None, 0, False)
    assert torch.equal(model.cos, torch.ones(1))
    assert "cos" in model.state_dict()  # which it would not be if it were not persistent


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_a_refused_export_leaves_the_model_as_before(exporter: str) -> None:
    def function(s: Any, x: torch.Tensor) -> Any:
        s.n += 1
        s.kv = torch.cat([s.kv, x])
        s.k += 1
        raise NotImplementedError("not yet")

    model = Holding(function, n=torch.zeros(1), kv=torch.zeros(1, 3), k=0).eval()
    before = held(model)
    with pytest.raises(RuntimeError, match="not yet"):
        export(model, torch.rand(2, 3), exporter=exporter)
    assert same(held(model), before)


def test_scripted_modules_with_state(tmp_path: Path) -> None:
    class Counts(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("n", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.n += 1
            return x + self.n

    class Calls(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.jit.script(Counts())

        def forward(self, x: torch.Tensor) -> Any:
            return self.inner(x) * 2

    for model in (torch.jit.script(Counts()), Calls()):
        x, path = torch.rand(2), tmp_path / "model.onnx"
        with pytest.warns(ExportCheckWarning, match="forward changes '(inner.)?n'"):
            export(model.eval(), x, path, exporter="torchscript")
        assert next(model.buffers()) == 0
        np.testing.assert_allclose(results(path, x)[0], model(x).numpy(), rtol=1e-6)


@pytest.mark.filterwarnings("ignore::myops.onnx.ExportCheckWarning")
def test_comparing_sees_the_returned_buffer_and_restores_the_model(tmp_path: Path) -> None:
    for name in ("returned", "assigned"):
        model, x, path = MODELS[name][0]().eval(), torch.rand(2, 3), tmp_path / "model.onnx"
        before = held(model)
        export(model, x, path)
        report = compare(model, x, path)
        assert report.first_mismatch is None
        assert same(held(model), before)


def test_restored_state() -> None:
    inner = torch.nn.BatchNorm1d(3)
    model = Holding(
        count, n=torch.tensor([1.0, torch.nan]), gone=torch.zeros(2), wide=torch.ones(1).expand(3)
    )
    model.inner, model.all, model.weight = (
        inner,
        [inner, {"k": {1}}],
        torch.nn.Parameter(inner.bias),
    )
    weight = model.weight
    model.all.append(model.all)  # a list in itself
    hook = None
    with module_state.restored(model) as state:
        assert state.changes() == module_state.Changes()
        hook = model.register_forward_hook(lambda *_: None)
        del model.gone
        model.n.data = torch.zeros(5)
        model.weight = torch.nn.Parameter(torch.zeros(1))
        model.all[1]["k"].add(2)
        model.all.clear()
        model.more, model.layer = 1, torch.nn.ReLU()
        inner.running_mean += 1
        del model.inner
        found = state.changes()
    assert found.buffers == {"gone"}
    assert found.weights == {"weight"}
    assert found.results == {"all", "more", "n"}
    assert torch.equal(model.n.isnan(), torch.tensor([False, True]))
    assert torch.equal(model.gone, torch.zeros(2))
    assert model.weight is weight
    assert model.inner is inner
    assert torch.equal(inner.running_mean, torch.zeros(3))
    assert model.all[0] is inner
    assert model.all[1] == {"k": {1}}
    assert model.all[2] is model.all
    assert not hasattr(model, "more")
    assert not hasattr(model, "layer")
    assert len(model._forward_hooks) == 1  # hooks are the caller's
    hook.remove()


def test_lazy_modules_keep_the_weights_of_their_first_run() -> None:
    model = torch.nn.Sequential(torch.nn.LazyLinear(3), torch.nn.LazyBatchNorm1d()).eval()
    with module_state.restored(model):
        model(torch.rand(2, 5))
    assert (model[0].in_features, model[1].num_features) == (5, 3)
