"""Calls with `out=`, in each way, compared with torch.add on tensors in the same state."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
import warm
from out_cases import Call, differences
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode

import myops
from myops import _libraries
from myops._torch import fast_call

G = torch.Generator().manual_seed(0)
X = torch.randn(2, 3, 5, 7, generator=G)
B = torch.randn(3, 1, 7, generator=G)
SCALES = torch.tensor([1.0, 1.0, 2.0, 3.0])
OFFSET = torch.randn(2, 18, 5, 7, generator=G)
WEIGHT = torch.randn(4, 3, 3, 3, generator=G)
OURS = torch.ops.myops
TORCH_OPS: dict[str, Any] = {
    name: getattr(importlib.import_module(f"myops.ops.{name}"), f"_{name}")
    for name in ("my_add", "resize", "deform_conv2d")
}

# The op, the call as users make it, and that of the dispatcher's overload.
CALLS: dict[str, tuple[str, Callable[..., Any], Call]] = {
    "my_add": (
        "my_add",
        lambda x, **out: myops.my_add(x, B, **out),
        lambda x, out: OURS.my_add.out(x, B, out=out),
    ),
    "my_add of strides": (
        "my_add",
        lambda x, **out: myops.my_add(x.mT, B.mT, **out),
        lambda x, out: OURS.my_add.out(x.mT, B.mT, out=out),
    ),
    "resize by a list": (
        "resize",
        lambda x, **out: myops.resize(x, [1, 1, 2, 3], mode="cubic", **out),
        lambda x, out: OURS.resize.values_out(
            x, None, [1.0, 1.0, 2.0, 3.0], None, mode="cubic", out=out
        ),
    ),
    "resize by a tensor": (
        "resize",
        lambda x, **out: myops.resize(x, SCALES, mode="linear", **out),
        lambda x, out: OURS.resize.out(x, None, SCALES, None, mode="linear", out=out),
    ),
    "interpolate": (
        "resize",
        lambda x, **out: myops.interpolate(x, scale_factor=2.5, mode="bilinear", **out),
        lambda x, out: OURS.resize.values_out(
            x, None, [2.5, 2.5], None, mode="linear", torch_arithmetic=True, axes=[2, 3], out=out
        ),
    ),
    "deform_conv2d": (
        "deform_conv2d",
        lambda x, **out: TORCH_OPS["deform_conv2d"](
            x, WEIGHT, OFFSET, None, None, pads=[1, 1, 1, 1], **out
        ),
        lambda x, out: OURS.deform_conv2d.out(
            x, WEIGHT, OFFSET, None, None, pads=[1, 1, 1, 1], out=out
        ),
    ),
}


class Dispatch(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class Function(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


WATCHERS: dict[str, Callable[[], Any]] = {
    "nobody": nullcontext,
    "profiler": lambda: profile(activities=[ProfilerActivity.CPU]),
    "dispatch mode": Dispatch,
    "function mode": Function,
    "forward mode": torch.autograd.forward_ad.dual_level,
}


def fresh() -> Tensor:
    return X.clone()


def check(call: Call, want: Tensor, returns: bool = True, count: int | None = None) -> None:
    found = list(differences(call, fresh, want, returns, count))
    assert not found, "\n".join([f"{len(found)} calls differ from torch.add:", *found[:20]])


each_call = pytest.mark.parametrize("name", CALLS)


@each_call
@pytest.mark.parametrize("watcher", WATCHERS)
@pytest.mark.parametrize("public", [True, False], ids=["function", "overload"])
def test_out_calls_behave_like_torch_add(name: str, watcher: str, public: bool) -> None:
    _, function, overload = CALLS[name]

    def call(x: Tensor, out: Tensor) -> Any:
        with WATCHERS[watcher]():
            return function(x, out=out) if public else overload(x, out)

    # A profiler takes a hundred times as long as the call.
    check(call, function(X), returns=public, count=24 if watcher == "profiler" else None)


@each_call
def test_out_calls_without_internals_behave_like_torch_add(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    op, function, _ = CALLS[name]
    library = _libraries.OURS._file("torch", ImportError)
    caller = fast_call.caller(TORCH_OPS[op].info, library, None)
    monkeypatch.setattr(TORCH_OPS[op], "fast_call", caller)
    check(lambda x, out: function(x, out=out), function(X))


SCRIPTS = {
    "my_add": "torch.ops.myops.my_add(x, b, out=out)",
    "resize by a list": "torch.ops.myops.resize(x, None, [1.0, 1.0, 2.0, 3.0], None, "
    'mode="cubic", out=out)',
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_out_calls_in_torchscript_behave_like_torch_add(name: str) -> None:
    source = f"def run(x, b, out):\n  {SCRIPTS[name]}\n  return out\n"
    unit = torch.jit.CompilationUnit(source)
    check(lambda x, out: unit.run(x, B, out), CALLS[name][1](X), returns=False)


# The library in libtorch without our Python files.
WITHOUT_PYTHON = """
import sys
import torch
from out_cases import differences

torch.ops.load_library(sys.argv[1])
x, scales = torch.rand(2, 3, 5, 7), [1.0, 1.0, 2.0, 3.0]
calls = {
    lambda x, out: torch.ops.myops.my_add.out(x, x, out=out): 3 * x,
    lambda x, out: torch.ops.myops.my_add.out(x.mT, x.mT, out=out): 3 * x.mT.contiguous(),
    lambda x, out: torch.ops.myops.resize.values_out(x, None, scales, out=out):
        torch.ops.myops.resize.values(x, None, scales),
}
for call, want in calls.items():
    # torch has no kernel that could negate the results of an op which does not return them.
    found = [line for line in differences(call, x.clone, want, False) if "out negated" not in line]
    assert not found, "\\n".join(found[:20])
"""


def test_out_calls_without_python_behave_like_torch_add() -> None:
    library = _libraries.OURS._file("torch", ImportError)
    folder = Path(__file__).parents[1]
    done = warm.run("-c", WITHOUT_PYTHON, library, cwd=folder, without_myops=True)
    assert done.returncode == 0, done.stderr[-6000:]
