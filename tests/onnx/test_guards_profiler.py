"""The checks observe a model with a profile function, also while a profiler of the user runs."""

from __future__ import annotations

import cProfile
import ctypes
import pstats
import sys
from typing import Any

import pytest
import torch

import myops
from myops.onnx import export
from myops.onnx.guards import _calls, _constants

WATCHES = [_calls.CallRecorder, _constants.Constants]


class Doubled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return myops.my_add(x, x)


@pytest.mark.filterwarnings("error::myops.onnx.ExportCheckWarning")
@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_a_model_is_exported_under_cprofile(exporter: str) -> None:
    with cProfile.Profile() as profile:
        export(Doubled(), torch.rand(3), dynamic_axes={"x": {0: "n"}}, exporter=exporter)
    functions = {name for _, _, name in pstats.Stats(profile).stats}  # type: ignore[attr-defined]
    assert {"export", "forward"} <= functions


@pytest.mark.parametrize("watch", WATCHES)
def test_a_profile_function_returns(watch: Any) -> None:
    seen = []
    sys.setprofile(lambda frame, event, argument: seen.append(event))
    mine = sys.getprofile()
    try:
        with watch():
            assert sys.getprofile() is not mine
        assert sys.getprofile() is mine
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("watch", WATCHES)
@pytest.mark.skipif(sys.version_info >= (3, 12), reason="cProfile no longer uses sys.setprofile")
def test_cprofile_goes_on(watch: Any) -> None:
    def before() -> None: ...
    def after() -> None: ...

    with cProfile.Profile() as profile:
        before()
        with watch():
            assert callable(sys.getprofile())
        after()
    functions = {name for _, _, name in pstats.Stats(profile).stats}  # type: ignore[attr-defined]
    assert {"before", "after"} <= functions


@pytest.mark.parametrize("watch", WATCHES)
def test_another_profiler_in_c_stays_and_is_named(watch: Any) -> None:
    kind = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int,
                             ctypes.c_void_p)  # fmt: skip
    function = kind(lambda *_: 0)
    set_profile = ctypes.pythonapi.PyEval_SetProfile
    set_profile.argtypes, set_profile.restype = [kind, ctypes.py_object], None
    profiler = [1]
    set_profile(function, profiler)
    try:
        with pytest.raises(RuntimeError, match="the profiler list is active"), watch():
            pass
        assert sys.getprofile() is profiler
    finally:
        sys.setprofile(None)
