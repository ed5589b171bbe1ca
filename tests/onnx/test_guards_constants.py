"""The constants of a model around which other lengths are tried."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from guard_models import Model, assert_fails

from myops.onnx.guards import _lengths
from myops.onnx.guards._constants import Constants
from myops.onnx.guards._lengths import Group

pytestmark = pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")

LIMIT = 3001
SETTINGS = {"audio": SimpleNamespace(limit=3002, other=3999)}


class Config:
    limit = 3003


@dataclasses.dataclass
class Nested:
    audio: Any = dataclasses.field(default_factory=lambda: SimpleNamespace(limit=3004))


class Own(torch.nn.Module):
    LIMIT = 3005

    def __init__(self) -> None:
        super().__init__()
        self.class_config = Config()
        self.nested = Nested()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x.shape[-1] > self.LIMIT else -x


class Inherited(Own):
    pass


class InConfig(Own):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x.shape[-1] > self.class_config.limit else -x


class InNestedConfig(Own):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x.shape[-1] > self.nested.audio.limit else -x


class InGlobal(Own):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x.shape[-1] > LIMIT else -x


class InGlobalDict(Own):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x.shape[-1] > SETTINGS["audio"].limit else -x


class InGlobalClass(Own):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x.shape[-1] > Config.limit else -x


class Large(Own):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x.shape[-1] > 16000 else -x


@pytest.mark.parametrize(
    "model",
    [Own, Inherited, InConfig, InNestedConfig, InGlobal, InGlobalDict, InGlobalClass, Large],
)
def test_a_branch_on_a_named_constant_is_found(model: Any) -> None:
    assert_fails(
        "numbers", "built in at", model(), torch.rand(1, 2000), dynamic_axes={"x": {1: "t"}},
        exporter="torchscript",
    )  # fmt: skip


def test_numbers_that_the_code_does_not_name_are_left_out() -> None:
    model, watch = InGlobalDict(), Constants()
    with watch:
        model(torch.rand(1, 2000))
    assert 3002 in watch.found
    assert not watch.found & {3001, 3003, 3004, 3005, 3999}


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_a_branch_on_an_area_is_found(exporter: str) -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        return F.avg_pool2d(x, 2) if x.shape[2] * x.shape[3] > 5000 else x

    axes = {"x": {0: "n", 2: "h", 3: "w"}}
    x = torch.rand(2, 3, 16, 20)
    assert_fails("numbers", "built in at", Model(forward), x, dynamic_axes=axes, exporter=exporter)


def test_lengths_that_take_too_long_do_not_displace_the_others() -> None:
    """Numbers of a model may be huge, such as the size of a vocabulary."""
    tried = []

    def attempt(point: Any) -> bool:
        tried.append(point["x", 0])
        return True

    constants = {100, *range(10**6, 10**7, 10**5)}
    affordable = lambda point: point["x", 0] < 5000  # noqa: E731
    assert _lengths.explore([Group([(("x", 0), 16)])], constants, attempt, lambda: True, affordable)
    assert min(tried) < 100 < max(tried) < 5000
