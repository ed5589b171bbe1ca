"""One number decides every random number of a call: the same stream in every runtime."""

import io

import numpy as np
import onnx
import onnx.reference
import onnxruntime
import pytest
import torch
from author_ops import random_dropout

import myops
import myops.onnx
import myops.ort
from myops import _numpy_call
from myops.testing import Case, checks

torch.manual_seed(0)
X = torch.randn(3, 50)


def slow(x, p=0.5, *, seed=None, key=None):
    seed = seed if key is None else int(key)
    random = torch.from_numpy(myops.Philox(seed).uniform(x.numel())).reshape(x.shape)
    factor = float(np.float32(1) / np.float32(1 - np.float32(p)))
    return torch.where(random >= float(np.float32(p)), x * factor, torch.zeros_like(x))


CASES = [
    Case((X,), {"p": 0.3, "seed": 7}, name="seed"),
    Case((X,), {"p": 0.7, "seed": -(2**63)}, name="lowest_seed"),
    Case((X[:, :9],), {"p": 0.3, "key": torch.tensor([2**40 + 5])}, name="key"),
    Case((X,), {"p": 1.0, "seed": 1}, refused="random_dropout: p: got 1, expected a number below"),
    Case((X,), {"p": -0.5, "seed": 1}, refused="random_dropout: p: got -0.5", name="negative"),
    Case(
        (X,),
        {"key": torch.tensor([1, 2])},
        refused="key: got shape [2], expected shape [1] (one number)",
    ),
]
FOUND = checks(
    random_dropout,
    CASES,
    reference=slow,
    gradients=1,
    skip={"bodies": "no standard form: ONNX has no generator whose numbers are specified"},
)


@pytest.mark.parametrize("check", FOUND, ids=str)
def test_family(check):
    check()


def test_the_share_of_zeros():
    y = random_dropout(torch.ones(100000), 0.3, seed=3)
    assert abs((y == 0).double().mean() - 0.3) < 0.005
    assert abs(y.double().mean() - 1) < 0.01


def test_the_global_generator():
    torch.manual_seed(5)
    first, second = random_dropout(X), random_dropout(X)
    assert not torch.equal(first, second)
    torch.manual_seed(5)
    assert torch.equal(random_dropout(X), first)
    assert torch.equal(random_dropout(X), second)


def test_a_generator():
    before = torch.get_rng_state()
    results = [random_dropout(X, generator=torch.Generator().manual_seed(9)) for _ in range(2)]
    assert torch.equal(*results)
    assert torch.equal(torch.get_rng_state(), before)


def test_devices():
    """The key is where the input is, whatever the default device."""
    torch.manual_seed(5)
    expected = random_dropout(X)
    torch.manual_seed(5)
    with torch.device("meta"):
        assert torch.equal(random_dropout(X), expected)
    for generator in (None, torch.Generator()):
        assert random_dropout(X.to("meta"), generator=generator).device.type == "meta"


def test_one_source_only():
    with pytest.raises(RuntimeError, match="generator: got one beside seed, expected one of"):
        random_dropout(X, seed=1, generator=torch.Generator())


def test_gradient_has_the_same_zeros():
    x = X.clone().requires_grad_()
    y = random_dropout(x, 0.4)
    (grad,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(grad == 0, y == 0)
    assert torch.equal(grad * X, y)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_compiled(backend):
    torch._dynamo.reset()
    with torch._inductor.config.patch(fallback_random=True):
        compiled = torch.compile(lambda x: random_dropout(x, 0.4), fullgraph=True, backend=backend)
        torch.manual_seed(1)
        found = [compiled(X), compiled(X)]
    torch.manual_seed(1)
    expected = [random_dropout(X, 0.4), random_dropout(X, 0.4)]
    assert not torch.equal(*expected)
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)


def test_vmap():
    x = torch.ones(4, 50)
    with pytest.raises(RuntimeError, match="randomness"):
        torch.func.vmap(random_dropout)(x)
    same = torch.func.vmap(random_dropout, randomness="same")(x)
    different = torch.func.vmap(random_dropout, randomness="different")(x)
    assert torch.equal(same[0], same[1])
    assert not torch.equal(different[0], different[1])
    for function in (torch.func.grad, torch.func.jacrev):  # the gradient draws the same numbers
        found = torch.func.vmap(
            lambda x, of=function: of(lambda x: random_dropout(x, key=torch.tensor([4])).sum())(x)
        )(x)
        assert torch.equal(found, random_dropout(torch.ones(50), seed=4).expand(4, 50))


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("transform", ["vmap", "nested", "compile", "torch.ops"])
def test_vmap_with_a_seed_or_keys(dim, transform):
    x = torch.randn(3, 4, 5)
    keys = torch.arange(x.shape[dim])[:, None] + 7
    run = torch.ops.author_ops.random_dropout if transform == "torch.ops" else random_dropout

    def mapped(function, dims):
        made = torch.func.vmap(function, in_dims=dims)
        return (
            torch.compile(made, fullgraph=True, backend="eager") if transform == "compile" else made
        )

    parts = x.unbind(dim)
    found = mapped(lambda x: run(x, p=0.3, seed=5), (dim,))(x)
    assert torch.equal(found, torch.stack([random_dropout(part, 0.3, seed=5) for part in parts]))
    found = mapped(lambda x, key: run(x, key, p=0.3) if run is not random_dropout
                   else run(x, 0.3, key=key), (dim, 0))(x, keys)  # fmt: skip
    expected = [random_dropout(part, 0.3, key=keys[i]) for i, part in enumerate(parts)]
    assert torch.equal(found, torch.stack(expected))
    if transform == "nested":
        inner = torch.func.vmap(random_dropout, randomness="different")
        found = torch.func.vmap(inner, in_dims=dim, randomness="different")(torch.ones_like(x))
        rows = {tuple(row.tolist()) for row in found.flatten(0, 1)}
        assert len(rows) > 4  # of few elements each, so that some are equal


def test_vmap_with_a_generator():
    def run():
        generator = torch.Generator().manual_seed(3)
        function = lambda x: random_dropout(x, generator=generator)  # noqa: E731
        return torch.func.vmap(function, randomness="different")(torch.ones(4, 50))

    first = run()
    assert torch.equal(first, run())
    assert not torch.equal(first[0], first[1])


def test_checkpoint():
    from torch.utils.checkpoint import checkpoint

    x = X.clone().requires_grad_()
    y = checkpoint(random_dropout, x, use_reentrant=False)
    (grad,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(grad == 0, y == 0)


class Model(torch.nn.Module):
    def forward(self, x):
        return random_dropout(random_dropout(x, 0.3) + 1, 0.3)


@pytest.mark.parametrize("dynamo", [False, True])
@pytest.mark.parametrize("ours", [False, True])
def test_exported_without_a_seed(dynamo, ours, tmp_path):
    """The nodes have seeds, and the file gives the same numbers in every run, in every runtime."""
    version = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])
    if dynamo and not ours and version < (1, 18):
        pytest.skip("torch's exporter writes IR version 10, which this ONNX Runtime cannot read")
    path = str(tmp_path / "model.onnx")
    for _ in range(2):
        torch.manual_seed(4)
        if ours:
            exporter = "dynamo" if dynamo else "torchscript"
            myops.onnx.export(Model(), (X,), path, exporter=exporter, input_names=["x"],
                              skip_checks=["numbers"])  # fmt: skip
        elif dynamo:
            torch.onnx.export(Model(), (X,), path, dynamo=True, input_names=["x"], verbose=False)
        else:
            torch.onnx.export(Model(), (X,), path, dynamo=False, input_names=["x"])
        nodes = [n for n in onnx.load(path).graph.node if n.op_type == "RandomDropout"]
        seeds = [item.i for node in nodes for item in node.attribute if item.name == "seed"]
        assert len(set(seeds)) == 2, "each node has a seed of its own"
    torch.manual_seed(4)
    expected = Model()(X).numpy()
    session = myops.ort.session(path)
    for _ in range(2):
        assert np.array_equal(session.run(None, {"x": X.numpy()})[0], expected)
    evaluator = onnx.reference.ReferenceEvaluator(path, new_ops=myops.onnx.reference_ops())
    assert np.array_equal(evaluator.run(None, {"x": X.numpy()})[0], expected)


def test_a_key_in_the_graph(tmp_path):
    """Other numbers at each run: the key is an input of the model."""

    class Keyed(torch.nn.Module):
        def forward(self, x, key):
            return random_dropout(x, 0.3, key=key)

    path = str(tmp_path / "model.onnx")
    myops.onnx.export(Keyed(), (X, torch.tensor([1])), path, input_names=["x", "key"])
    session = myops.ort.session(path)
    for key in (1, 2, -5):
        (y,) = session.run(None, {"x": X.numpy(), "key": np.array([key])})
        assert np.array_equal(y, random_dropout(X, 0.3, seed=key).numpy())


def test_numpy():
    info = myops.op_library("author_ops").ops["random_dropout"]
    (y,) = _numpy_call.call(info, [X.numpy(), None], {"p": 0.3, "seed": 12}, threads=3)
    assert np.array_equal(y, random_dropout(X, 0.3, seed=12).numpy())


def test_exported_program():
    program = torch.export.export(Model(), (X,), dynamic_shapes=({0: torch.export.Dim.AUTO},))
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    module = torch.export.load(file).module()
    torch.manual_seed(3)
    found = module(X)
    torch.manual_seed(3)
    assert torch.equal(found, Model()(X))


def test_a_prototype_of_it():
    def drop(x, *, p, seed):
        """As random_dropout."""
        random = myops.Philox(seed).uniform(x.size).reshape(x.shape)
        factor = x.dtype.type(np.float32(1) / np.float32(1 - np.float32(p)))
        return np.where(random >= np.float32(p), x * factor, x.dtype.type(0))

    op = myops.prototype(
        drop,
        domain="author_ops_draft",
        types={"T": ["float32", "float64"]},
        inputs=[myops.Input("x", "T", "Any tensor.")],
        outputs=[myops.Output("y", "T", "Of the shape of x.")],
        attributes=[myops.Attribute("p", 0.5, "The share of zeros.")],
        shape=lambda inputs, attributes: [inputs[0].shape],
        random=True,
    )
    for settings in ({"seed": 3}, {"key": torch.tensor([9])}):
        assert torch.equal(op(X, 0.3, **settings), random_dropout(X, 0.3, **settings))
    torch.manual_seed(2)
    found = op(X, 0.3)
    torch.manual_seed(2)
    assert torch.equal(found, random_dropout(X, 0.3))


def test_a_gradient_in_python_has_no_place_for_the_key():
    def save(ctx, inputs, attributes, output):
        ctx.save_for_backward(inputs[0], output)

    op = myops.prototype(
        lambda x, *, seed: x * myops.Philox(seed).uniform(x.size).reshape(x.shape),
        name="scaled_at_random",
        domain="author_ops_draft",
        types={"T": ["float32"]},
        inputs=[myops.Input("x", "T", "Any tensor.")],
        outputs=[myops.Output("y", "T", "Of the shape of x.")],
        shape="... -> ...",
        save=save,
        backward=lambda ctx, grad: grad * ctx.saved_tensors[1] / ctx.saved_tensors[0],
        random=True,
    )
    x = (torch.rand(5) + 1).requires_grad_()
    for run in (op, torch.compile(op, fullgraph=True, backend="aot_eager")):
        y = run(x, key=torch.tensor([3]))
        assert torch.equal(y, x * torch.from_numpy(myops.Philox(3).uniform(5)))
        (grad,) = torch.autograd.grad(y.sum(), x)
        torch.testing.assert_close(grad, y / x)
    assert torch.equal(torch.func.vmap(lambda x: op(x, seed=3))(x[None])[0], y)
