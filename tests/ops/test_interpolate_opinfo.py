"""interpolate on the sample inputs that torch itself tests its function with (OpInfo)."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import myops

OPINFOS = [
    *(f"nn.functional.interpolate-{mode}" for mode in ("nearest", "nearest-exact", "linear",
      "bilinear", "bicubic", "trilinear", "area")),
    "nn.functional.upsample_nearest-",
    "nn.functional.upsample_bilinear-",
]  # fmt: skip


@functools.cache
def opinfos() -> dict[str, Any]:
    # Imported here, because it takes three seconds, in each process of the tests.
    from torch.testing._internal.common_methods_invocations import op_db

    found = {f"{info.name}-{info.variant_test_name}": info for info in op_db}
    prefixes = ("nn.functional.interpolate", "nn.functional.upsample")
    return {name: info for name, info in found.items() if name.startswith(prefixes)}


def test_no_samples_of_torch_are_left_out() -> None:
    assert sorted(opinfos()) == sorted(OPINFOS)


@pytest.mark.parametrize("name", OPINFOS)
def test_sample_inputs_of_torch_equal_torch(name: str) -> None:
    """torch's own sample inputs."""
    info = opinfos()[name]
    count = 0
    for item in info.sample_inputs("cpu", torch.float32):
        options = dict(item.kwargs)
        arguments = list(item.args)
        if "upsample" in info.name:
            bilinear = info.name.endswith("bilinear")
            options["mode"] = "bilinear" if bilinear else "nearest"
            if bilinear:
                options["align_corners"] = True
        mode = options.get("mode") or (arguments[2] if len(arguments) > 2 else "nearest")
        expected = F.interpolate(item.input, *arguments, **options)
        tolerance = 0 if mode.startswith("nearest") else 1e-5
        result = myops.interpolate(item.input, *arguments, **options)
        torch.testing.assert_close(result, expected, rtol=tolerance, atol=tolerance)
        count += 1
    assert count > 0
