"""A weight is packed once for as long as it does not change."""

import numpy as np
import pytest
import torch
from author_ops import packed_linear

import myops
from myops import _description
from myops.testing import Case, checks

torch.manual_seed(0)

CASES = [
    Case((torch.randn(4, 7), torch.randn(11, 7)), name="rows"),
    Case((torch.randn(2, 3, 5), torch.randn(8, 5)), name="batch"),
    Case((torch.randn(5), torch.randn(3, 5)), name="one"),
    Case((torch.randn(4, 7), torch.randn(3, 5)), refused="weight: got [3, 5], expected [O, 7]"),
]
FOUND = checks(packed_linear, CASES, reference=lambda x, weight: x @ weight.mT)


@pytest.mark.parametrize("check", FOUND, ids=str)
def test_family(check):
    check()


class Calls:
    """A layer that is called in one of the ways of torch, and what it should compute."""

    def __init__(self, way):
        self.weight = torch.nn.Parameter(torch.randn(11, 7), requires_grad=way != "frozen")
        self.x = torch.randn(4, 7)
        self.run = packed_linear
        if way == "compile":
            self.run = torch.compile(packed_linear, fullgraph=True, backend="aot_eager")
        if way == "torch.ops":
            self.run = torch.ops.author_ops.packed_linear

    def check(self):
        expected = self.x @ self.weight.mT
        torch.testing.assert_close(self.run(self.x, self.weight), expected)


WRITES = {
    "add_": lambda w: w.add_(1),
    "copy_": lambda w: w.copy_(torch.randn_like(w)),
    "index": lambda w: w[2:5].fill_(3),
    "out": lambda w: torch.mul(w.detach(), 2, out=w),
    "view": lambda w: w.view(-1)[::2].neg_(),
    "detach": lambda w: w.detach().zero_(),
    "foreach": lambda w: torch._foreach_add_([w], 1.0),
    "data": lambda w: setattr(w, "data", torch.randn_like(w)),
    "set_": lambda w: w.set_(torch.randn(11, 7)),
    "increment_version": lambda w: (
        w.data.mul_(3), torch.autograd.graph.increment_version(w)
    ),
}  # fmt: skip


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("way", ["eager", "frozen", "no_grad", "torch.ops", "compile"])
def test_a_weight_that_changes(way, write):
    calls = Calls(way)
    with torch.set_grad_enabled(way != "no_grad"):
        for _ in range(3):
            calls.check()
        with torch.no_grad():
            WRITES[write](calls.weight)
        for _ in range(3):
            calls.check()


@pytest.mark.parametrize("kind", ["SGD", "Adam", "fused"])
def test_a_weight_that_is_trained(kind):
    torch._dynamo.reset()
    calls = Calls("eager")
    settings = {"SGD": {}, "Adam": {"foreach": True}, "fused": {"fused": True}}[kind]
    optimizer = getattr(torch.optim, "SGD" if kind == "SGD" else "Adam")(
        [calls.weight], lr=0.1, **settings
    )
    for _ in range(3):
        for _ in range(3):  # gradients accumulate
            packed_linear(calls.x, calls.weight).square().sum().backward()
        optimizer.step()
        with torch.no_grad():
            calls.check()


def test_inference_mode():
    calls = Calls("eager")
    with torch.inference_mode():
        for _ in range(3):
            calls.check()
        calls.weight.mul_(2)
        calls.check()
        calls.weight = torch.randn(11, 7)  # has no version
        for _ in range(3):
            calls.check()
            calls.weight.mul_(2)


def test_other_memory_at_the_same_address():
    x = torch.randn(4, 7)
    for _ in range(50):
        weight = torch.randn(11, 7)
        for _ in range(3):
            torch.testing.assert_close(packed_linear(x, weight), x @ weight.mT)


def test_two_threads():
    from concurrent.futures import ThreadPoolExecutor

    calls = Calls("frozen")
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: calls.check(), range(200)))


def test_numpy():
    info = myops.op_library("author_ops").ops["packed_linear"]
    x, weight = np.random.randn(4, 7), np.random.randn(11, 7)

    def check():
        (y,) = _description.call(info, [x, weight])
        np.testing.assert_allclose(y, x @ weight.T)

    for writeable in (True, False, True):
        weight.flags.writeable = writeable
        for _ in range(3):
            check()
            if writeable:
                weight *= 2
    view = weight.view()
    view.flags.writeable = False
    weight, base = view, weight
    for _ in range(3):  # somebody else can write to it
        check()
        base += 1


def _seconds(call):
    import time

    times = []
    for _ in range(30):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return sorted(times)[3]


@pytest.mark.parametrize("way", ["eager", "no_grad", "torch.ops", "compile", "numpy"])
def test_it_is_packed_once(way):
    """Later calls are faster than calls with a weight that changes each time, and write nothing."""
    torch.set_num_threads(1)
    x, weight = torch.randn(1, 1024), torch.nn.Parameter(torch.randn(2048, 1024))
    if way == "numpy":
        info = myops.op_library("author_ops").ops["packed_linear"]
        writeable, constant = weight.detach().numpy(), weight.detach().numpy().copy()
        constant.flags.writeable = False

        def fresh():
            _description.call(info, [x.numpy(), writeable], threads=1)

        def again():
            _description.call(info, [x.numpy(), constant], threads=1)
    else:
        run = Calls(way).run
        grad = way in ("eager", "compile")

        def again():
            with torch.set_grad_enabled(grad):
                run(x, weight)

        def fresh():
            torch.autograd.graph.increment_version(weight)
            again()

    changing, unchanged = _seconds(fresh), _seconds(again)
    print(f"{way}: packs at each call {changing * 1e3:.3f} ms, packed {unchanged * 1e3:.3f} ms")
    assert unchanged < 0.7 * changing
