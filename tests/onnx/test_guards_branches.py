"""Branches of a trace whose other side no comparison reached, and which reads an error names."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from guard_models import Model, assert_fails

import myops
from myops.onnx import ExportCheckWarning, export
from myops.onnx.guards import _branches

pytestmark = pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")


def cropped(x: torch.Tensor, most: int) -> torch.Tensor:
    return x[..., -most:] if x.shape[-1] > most else x


def gate(x: torch.Tensor) -> torch.Tensor:
    score = x.softmax(-1)[:, 0].mean()
    if 0.93 < score < 0.97:
        return x * 0
    return x + 1


def unreached(x: torch.Tensor) -> torch.Tensor:
    return cropped(x, 10**9)


def one_of_two_calls_unreached(x: torch.Tensor) -> torch.Tensor:
    return cropped(cropped(x, 20), 10**9)


def both(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if (x.shape[-1] > 10**9) & (x.shape[-1] % 2 == 0) else x


LINES: list[tuple[Callable[..., Any], list[int], str]] = [
    (gate, [0], "a value at .*if 0.93 < score"),
    (unreached, [1], r"a length at .*return x\[..., -most:\] if"),
    (both, [0, 1], "a length at .*return x "),
]


@pytest.mark.parametrize(("forward", "axes", "said"), LINES)
def test_a_branch_that_went_one_way_is_a_warning(forward: Any, axes: list[int], said: str) -> None:
    torch.manual_seed(0)
    with pytest.warns(ExportCheckWarning, match=f"numbers: the branch on {said}"):
        export(Model(forward), torch.rand(2, 5), dynamic_axes={"x": axes}, exporter="torchscript")


def test_each_call_of_a_function_is_a_branch_of_its_own() -> None:
    axes = {"x": [1]}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        other = Model(lambda x: cropped(x + 0, 10**9) + cropped(-x, 10**9))
        export(other, torch.rand(2, 5), dynamic_axes=axes, exporter="torchscript")
    said = [str(item.message) for item in caught if item.category is ExportCheckWarning]
    assert len(said) == 1  # one line
    options: dict[str, Any] = {"dynamic_axes": axes, "exporter": "torchscript"}
    x = torch.rand(2, 5)
    assert_fails("numbers", "if x.shape", Model(one_of_two_calls_unreached), x, **options)


def test_the_advice_for_a_value_is_no_advice_for_a_length() -> None:
    torch.manual_seed(0)
    with pytest.warns(ExportCheckWarning) as caught:
        export(Model(gate), torch.rand(2, 5), exporter="torchscript")
    text = "".join(str(item.message) for item in caught)
    assert "Write torch.where(condition, a, b) instead of a branch on a value" in text
    assert "F.pad" not in text


class Refuses(torch.nn.Module):
    width = 5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] != self.width or x.dtype == torch.float64:  # a fixed axis
            return x * 2
        assert x.shape[-1] < 10**9, "too long"
        if x.shape[-1] >= 10**9:
            raise ValueError("too long")
        if x.abs().max() > 1e30:
            warnings.warn("large", stacklevel=1)
        if x.shape[-1] == 0:  # lengths of 0 are not tried
            return x * 3
        rest = -x.shape[-1] % 8
        if rest > 0:
            x = F.pad(x, (0, rest))
        if not self.training:
            x = x + 1
        return x / max(x.shape[3] - 1, 1)


def test_branches_that_only_refuse_or_cannot_change_are_no_warning(no_warnings: None) -> None:
    x = torch.rand(1, 5, 6, 7)
    axes = {"x": {0: "n", 2: "h", 3: "w"}}
    export(Refuses(), x, dynamic_axes=axes, exporter="torchscript")


def test_a_branch_in_a_loop_over_a_fixed_axis_is_no_warning(no_warnings: None) -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        frames, state = x.shape[1], x[:, 0] * 0
        for i in range(frames - 1, -1, -1):  # as in recurrent networks for video
            state = x[:, i] + (state.tanh() if i < frames - 1 else state)
        return state

    export(Model(forward), torch.rand(1, 3, 6), dynamic_axes={"x": {0: "n", 2: "w"}},
           exporter="torchscript")  # fmt: skip


def test_padding_of_declared_multiples_is_no_warning(no_warnings: None) -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        rest = -x.shape[2] % 32
        if rest > 0:
            x = F.pad(x, (0, 0, 0, rest)) * 2
        return x if x.shape[2] // 32 * 32 == x.shape[2] else x * 3

    export(Model(forward), torch.rand(1, 1, 32, 4), dynamic_axes={"x": {2: "32*h"}},
           exporter="torchscript")  # fmt: skip


def test_a_model_whose_second_trace_fails_is_exported(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*args: Any) -> None:
        raise RuntimeError

    monkeypatch.setattr(_branches, "_trace", fails)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ExportCheckWarning)
        export(Model(unreached), torch.rand(2, 5), dynamic_axes={"x": [1]},
               exporter="torchscript")  # fmt: skip


class Numbers(torch.nn.Module):
    def forward(self, x: torch.Tensor, factor: float, flag: bool) -> torch.Tensor:
        y = x * factor if flag else x
        return y if x.shape[0] < 10**9 else -y


def test_numbers_among_the_arguments_are_given_as_in_the_trace() -> None:
    with pytest.warns(ExportCheckWarning, match="the branch on a length at .*return y if"):
        export(Numbers(), (torch.rand(2, 5), 2.0, True), constants=["flag"],
               dynamic_axes={"x": [0]}, exporter="torchscript")  # fmt: skip


def test_scripted_modules_keep_their_branches(no_warnings: None) -> None:
    class Scripted(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.shape[0] > 1000000000:
                return -x
            return x

    export(torch.jit.script(Scripted()), torch.rand(2, 5), dynamic_axes={"x": [0]},
           exporter="torchscript")  # fmt: skip


class Around(torch.nn.Module):
    """A scripted module inside one that is traced, which torch's first trace cannot call."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.jit.script(torch.nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) if x.shape[0] < 10**9 else x


def test_a_branch_around_a_scripted_module_is_a_warning() -> None:
    with pytest.warns(ExportCheckWarning, match="the branch on a length at"):
        export(Around(), torch.rand(2, 5), dynamic_axes={"x": [0]}, exporter="torchscript")


# -- which lines an error names -----------------------------------------------------------------


class Deformed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.offset = torch.nn.Conv2d(3, 18, 3, padding=1)
        self.weight = torch.nn.Parameter(torch.randn(3, 3, 3, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = myops.deform_conv2d(x, self.offset(x), self.weight, padding=1)
        return x * 2 if x.shape[2] > 20 else x


def test_reads_of_fixed_lengths_are_not_named() -> None:
    x = torch.rand(2, 3, 8, 8)
    with pytest.raises(myops.onnx.ExportCheckError) as caught:
        export(Deformed(), x, dynamic_axes={"x": {2: "h", 3: "w"}}, exporter="torchscript")
    assert "return x * 2 if x.shape[2] > 20 else x, by if" in str(caught.value)
    assert "myops.deform_conv2d(" not in str(caught.value)


def test_a_value_that_is_built_in_is_answered_with_where() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        if x.std() < 0.05:
            return x
        return (x - x.mean()) / x.std()

    text = r"if x.std\(\) < 0.05:, by if, and, or, not. Write torch.where\(condition, a, b\)"
    assert_fails("numbers", text, Model(forward), torch.rand(2, 5), exporter="torchscript")
