"""A weight is packed once for as long as it does not change."""

import numpy as np
import pytest
import torch
from author_ops import packed_linear

import myops
from myops import _numpy_call
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


SIZES = {"small": (11, 7), "large": (96, 1024)}  # of the latter a part decides the fingerprint


class Calls:
    """A layer that is called in one of the ways of torch, and what it should compute."""

    def __init__(self, way, size="small"):
        shape = SIZES[size]
        self.weight = torch.nn.Parameter(torch.randn(shape), requires_grad=way != "frozen")
        self.x = torch.randn(4, shape[1])
        self.run = packed_linear
        if way == "compile":
            self.run = torch.compile(packed_linear, fullgraph=True, backend="aot_eager")
        if way == "torch.ops":
            self.run = torch.ops.author_ops.packed_linear

    def check(self):
        expected = self.x.double() @ self.weight.mT.double()
        found = self.run(self.x, self.weight).double()
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-3)


@torch.compile(backend="aot_eager")
def compiled_write(weight):
    weight.mul_(2)


def preserving(weight):
    with torch.autograd._unsafe_preserve_version_counter(weight):
        weight.mul_(2)


# Autograd counts the first ones; the fingerprint sees the others, which change all elements.
WRITES = {
    "add_": lambda w: w.add_(1),
    "copy_": lambda w: w.copy_(torch.randn_like(w)),
    "index": lambda w: w[2:5].fill_(3),
    "one": lambda w: w[1, 6].add_(30),
    "out": lambda w: torch.mul(w.detach(), 2, out=w),
    "view": lambda w: w.view(-1)[::2].neg_(),
    "detach": lambda w: w.detach().zero_(),
    "foreach": lambda w: torch._foreach_add_([w], 1.0),
    "load_state_dict": lambda w: torch.nn.ParameterDict({"w": w}).load_state_dict(
        {"w": torch.randn_like(w)}
    ),
    "compiled": compiled_write,
    "increment_version": lambda w: (
        w.data[1, 6].add_(30), torch.autograd.graph.increment_version(w)
    ),
    "forget": lambda w: (w.data[1, 6].add_(30), myops.forget_prepared()),
    "another data": lambda w: setattr(w, "data", torch.randn_like(w)),
    "set_": lambda w: w.set_(torch.randn_like(w)),
    "data": lambda w: w.data.mul_(2),
    "numpy": lambda w: np.multiply(w.detach().numpy(), 2, out=w.detach().numpy()),
    "dlpack": lambda w: torch.from_dlpack(w.detach()).mul_(2),
    "storage": lambda w: w.untyped_storage().copy_(torch.randn_like(w).untyped_storage()),
    "preserve": preserving,
}  # fmt: skip


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize(("way", "size"), [
    ("eager", "small"), ("eager", "large"), ("frozen", "large"), ("no_grad", "small"),
    ("torch.ops", "large"), ("compile", "large"),
])  # fmt: skip
def test_a_weight_that_changes(way, write, size):
    calls = Calls(way, size)
    with torch.set_grad_enabled(way != "no_grad"):
        for _ in range(3):
            calls.check()
        with torch.no_grad():
            WRITES[write](calls.weight)
        for _ in range(3):
            calls.check()


def test_every_element_of_a_small_weight_is_looked_at():
    calls = Calls("frozen")
    for place in range(77):
        for _ in range(3):
            calls.check()
        calls.weight.data.view(-1)[place] += 10
        calls.check()


def test_the_documented_limit():
    """A change of one element of a large weight through `.data` is not noticed until it is
    reported."""
    calls = Calls("frozen", "large")
    for _ in range(3):
        calls.check()
    calls.weight.data[1, 500] += 100
    with pytest.raises(AssertionError):
        calls.check()
    myops.forget_prepared()
    calls.check()


def _sgd(settings):
    return lambda weights: torch.optim.SGD(weights, lr=0.1, **settings)


OPTIMIZERS = {
    "SGD": _sgd({}), "SGD fused": _sgd({"fused": True}),
    "Adam": lambda weights: torch.optim.Adam(weights, lr=0.1, foreach=True),
    "Adam fused": lambda weights: torch.optim.Adam(weights, lr=0.1, fused=True),
}  # fmt: skip


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_a_weight_that_is_trained(kind, size, compiled):
    """Autograd counts no fused step. An eager one is seen where it changes one column only, which
    the fingerprint does not read; a compiled one by the fingerprint."""
    torch._dynamo.reset()
    calls = Calls("eager", size)
    if not compiled:
        calls.x[:] = 0
        calls.x[:, -500 % calls.x.shape[1]] = 1
    optimizer = OPTIMIZERS[kind]([calls.weight])
    step = torch.compile(optimizer.step, backend="aot_eager") if compiled else optimizer.step
    for _ in range(3):
        for _ in range(3):  # gradients accumulate
            packed_linear(calls.x, calls.weight).square().sum().backward()
        step()
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


@pytest.mark.parametrize("size", SIZES)
def test_numpy(size):
    info = myops.op_library("author_ops").ops["packed_linear"]
    weight = np.random.randn(*SIZES[size])
    x = np.random.randn(4, weight.shape[1])

    def check():
        (y,) = _numpy_call.call(info, [x, weight])
        np.testing.assert_allclose(y, x @ weight.T)

    for writeable in (True, False, True, False):
        weight.flags.writeable = writeable
        for _ in range(3):
            check()
            if writeable:
                weight *= 2
    whole = np.random.randn(*weight.shape)
    weight = whole[:]
    weight.flags.writeable = False
    for _ in range(3):  # it can be written through `whole`
        check()
        whole += 1
    whole.flags.writeable = False  # but not to what is left of it
    for _ in range(3):
        check()
    weight = np.frombuffer(whole.tobytes()).reshape(whole.shape)  # bytes, which never change
    for _ in range(3):
        check()
    view = np.random.randn(*weight.shape)
    other = view[:]
    view.flags.writeable = False
    weight = view
    for _ in range(3):  # an earlier view of it is writeable
        check()
        other *= 2


def _kernels(call):
    """The kernels that ran."""
    return [step.kernel for found in myops.explain(call).calls for step in found.plan]


@pytest.mark.parametrize("way", ["eager", "no_grad", "torch.ops", "compile", "numpy"])
def test_it_is_packed_once(way):
    """The first call only records the weight; one that changes before each call is never packed."""
    x, weight = torch.randn(1, 1024), torch.nn.Parameter(torch.randn(2048, 1024))
    if way == "numpy":
        info = myops.op_library("author_ops").ops["packed_linear"]
        writeable, constant = weight.detach().numpy(), weight.detach().numpy().copy()
        constant.flags.writeable = False

        def fresh():
            _numpy_call.call(info, [x.numpy(), writeable], threads=1)

        def again():
            _numpy_call.call(info, [x.numpy(), constant], threads=1)
    else:
        run = Calls(way).run
        grad = way in ("eager", "compile")

        def again():
            with torch.set_grad_enabled(grad):
                run(x, weight)

        def fresh():
            torch.autograd.graph.increment_version(weight)
            again()

    again()  # a program is compiled here
    assert [_kernels(fresh) for _ in range(3)] == [["packed_by_call"]] * 3
    again()
    assert [_kernels(again) for _ in range(3)] == [["packed_once"]] * 3
