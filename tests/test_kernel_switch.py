"""MYOPS_DISABLE_KERNEL: the other kernels compute the results of one that is disabled."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import warm
from reference_deform_conv2d import deform_conv2d as reference

# Many offset groups: with 10 channels each, and with one.
CALLS = """
import json, sys
import numpy as np, torch, myops

found, names = {}, {}

def keep(name, explained):
    names[name] = [step.kernel for call in explained.calls for step in call.plan]
    results = explained.result if isinstance(explained.result, tuple) else (explained.result,)
    for number, item in enumerate(results):
        item = item.detach().contiguous()
        bits = item.view(torch.uint8) if "add" in name else item  # NumPy has no bfloat16
        found[f"{name} {number}"] = bits.numpy()

random = torch.Generator().manual_seed(1)
for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int32):
    a = (torch.randn(40, 137, generator=random) * 9).to(dtype)
    row, column = a[:1].clone(), a[:, :1].clone()
    pairs = {"whole": (a, a.flip(0)), "a": (column, a), "b": (a, column)}
    pairs["short"] = (a[:, :5].clone(), row[:, :5].clone())
    pairs["transposed"] = (a, a.flip(1).t().contiguous().t())
    pairs["gaps"] = (a[:, ::2], a[:, 1:138:2].flip(1)[:, :1].clone())
    pairs["repeated"] = (a.view(8, 5, 137), a[:5].t().contiguous().t())
    for kind, pair in pairs.items():
        keep(f"add {kind} {dtype}", myops.explain(myops.my_add, *pair))
x = torch.randn(2, 160, 20, 24, generator=random).requires_grad_(True)
w = torch.randn(16, 160, 3, 3, generator=random).requires_grad_(True)
offset = torch.randn(2, 16 * 18, 20, 24, generator=random).requires_grad_(True)
y = myops.deform_conv2d(x, offset, w, padding=1)
grad = torch.randn(y.shape, generator=random)
few = torch.randn(1, 16, 20, 24, generator=random).requires_grad_(True)
narrow = torch.randn(16, 16, 3, 3, generator=random).requires_grad_(True)
result = myops.deform_conv2d(few, offset[:1], narrow, padding=1)
keep("few", myops.explain(torch.autograd.grad, result, (few, offset, narrow), grad[:1]))
keep("deform", myops.explain(torch.autograd.grad, y, (x, offset, w), grad))
for name, channels in (("one block", 16), ("some blocks", 40)):  # of float16
    leaves = [torch.randn(1, channels, 130, 130), torch.randn(1, 4, 130, 129),
              torch.randn(3, channels, 1, 2)]
    leaves[1][:, :, 60:] = -300  # outside of the image
    leaves = [leaf.half().requires_grad_(True) for leaf in leaves]
    result = myops.deform_conv2d(*leaves)
    keep(name, myops.explain(torch.autograd.grad, result, leaves, torch.ones_like(result)))
arrays = dict(x=x.detach(), w=w.detach(), few=few.detach(), narrow=narrow.detach())
np.savez(sys.argv[1], **arrays, offset=offset.detach(), grad=grad, **found)
print(json.dumps(names))
"""
OFF = {
    "nothing": [],
    "my_add": [
        f"my_add.{name}"
        for name in ("contiguous", "repeated_a", "repeated_b", "packed", "tiles", "in_order")
    ],
    **{
        name: [f"deform_conv2d.{name}"]
        for name in ("with_data_gradient", "cell_tables", "narrow_images")
    },
}
Ran = tuple[dict[str, list[str]], dict[str, Any]]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ran]:
    """The kernels and the results with each of the lists of names."""
    found = {}
    folder = tmp_path_factory.mktemp("switch")
    for title, names in OFF.items():
        path = folder / f"{title}.npz"
        environment = {**os.environ, "MYOPS_DISABLE_KERNEL": ",".join(names)}
        # Without myops: the variable is read when its library is loaded.
        done = warm.run("-c", CALLS, path, env=environment, without_myops=True)
        assert done.returncode == 0, done.stderr
        found[title] = (json.loads(done.stdout), dict(np.load(path)))
    return found


def test_without_the_variable_all_kernels_are_chosen(ran: dict[str, Ran]) -> None:
    names, _ = ran["nothing"]
    assert set(names["deform"]) == {"whole_images", "with_data_gradient"}
    assert set(names["few"]) == {"cell_tables"}
    for kind, kernel in {
        "whole": "contiguous", "a": "repeated_a", "b": "repeated_b", "short": "packed",
        "transposed": "tiles", "gaps": "packed", "repeated": "in_order",
    }.items():  # fmt: skip
        assert kernel in names[f"add {kind} torch.float32"]


def test_disabled_kernels_do_not_run(ran: dict[str, Ran]) -> None:
    for title, off in OFF.items():
        kernels = {kernel for found in ran[title][0].values() for kernel in found}
        assert kernels.isdisjoint(name.partition(".")[2] for name in off)
    assert "jobs" in ran["with_data_gradient"][0]["deform"]
    for name in ("one block", "some blocks"):  # 16-bit sums of X
        assert "image_in_bands" in ran["narrow_images"][0][name]
        assert "image_in_bands" not in ran["nothing"][0][name]
    assert {found[0] for name, found in ran["my_add"][0].items() if "add" in name} <= {
        "strided", "avx2",
    }  # fmt: skip


def test_kernels_with_promised_equal_bits_have_them(ran: dict[str, Ran]) -> None:
    expected = ran["nothing"][1]
    for title in ("my_add", "with_data_gradient", "narrow_images"):
        for name, array in ran[title][1].items():
            assert np.array_equal(array, expected[name]), (title, name)


def test_other_kernels_agree_with_the_reference(ran: dict[str, Ran]) -> None:
    given = ran["nothing"][1]
    for kind, first, last in (("deform", "x", "w"), ("few", "few", "narrow")):
        x, offset, w = (
            torch.from_numpy(given[name]).double().requires_grad_(True)
            for name in (first, "offset", last)
        )
        count = len(x)
        y = reference(x, w, offset[:count], None, None, pads=(1, 1, 1, 1), offset_group=16)
        grad = torch.from_numpy(given["grad"][:count]).double()
        grads = torch.autograd.grad(y, (x, offset, w), grad)
        for title in OFF:
            for number, right in enumerate(grads):
                error = np.abs(ran[title][1][f"{kind} {number}"] - right.numpy()).max()
                assert error < 1e-4 * float(right.abs().max()), (title, kind, number)


def test_every_name_of_a_kernel_is_in_the_code() -> None:
    source = "".join(path.read_text() for path in Path(__file__).parents[1].glob("csrc/ops/**/*.h"))
    for names in OFF.values():
        assert all(f'kernel_enabled("{name}")' in source for name in names)
