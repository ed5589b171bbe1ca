"""my_add: values, shapes, refusals, gradients and every way that torch can run it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from onnx import helper
from runtimes import (
    assert_equal_bits,
    assert_parity,
    random_array,
    run_numpy,
    run_ort,
    run_torch,
    to_torch,
)

import myops
import myops.ort
from myops.ops.my_add import reference

DTYPES = myops._description.OPS["my_add"].types["T"]
# Pairs of shapes; each comment says what the pair tests.
CASES = [
    ((), ()),  # scalars
    ((1,), (7,)),  # one element against a row
    ((3, 4), (3, 4)),  # one run
    ((3, 4), (4,)),  # a row repeated
    ((3, 1), (1, 4)),  # both repeated
    ((5, 1, 2, 1), (3, 1, 7)),  # ranks differ
    ((0, 4), (1, 4)),  # nothing to do
    ((129, 257), (129, 257)),  # more than one piece of work, odd sizes
    ((1,), (40001,)),  # a scalar against more than one piece
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("a_shape", "b_shape"), CASES)
def test_values_and_parity(
    rng: np.random.Generator, a_shape: tuple[int, ...], b_shape: tuple[int, ...], dtype: str
) -> None:
    a, b = random_array(rng, a_shape, dtype), random_array(rng, b_shape, dtype)
    result = assert_parity("my_add", [a, b])[0]
    with np.errstate(over="ignore"):
        expected = reference(a, b)
        # One rounding of the exact result is the best that the dtype allows.
        np.testing.assert_array_equal(result, expected.astype(a.dtype))


def test_float16_rounds_once() -> None:
    """2a overflows float16 although 2a + b does not; an op that rounds in between gives inf."""
    a, b = np.float16([40000]), np.float16([-40000])
    assert run_numpy("my_add", [a, b])[0] == np.float16(40000)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integers_wrap(dtype: str) -> None:
    top = np.array([np.iinfo(dtype).max], dtype)
    assert_parity("my_add", [top, np.array([3], dtype)])
    assert run_numpy("my_add", [top, np.array([3], dtype)])[0].item() == 1


def test_special_values_have_equal_bits() -> None:
    special = np.float32([0.0, -0.0, np.inf, -np.inf, np.nan, 1e38, -1e38, 1e-45])
    a, b = np.meshgrid(special, special)
    result = assert_parity("my_add", [a.copy(), b.copy()])[0]
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(result, np.float32(2) * a + b)


def test_strides_are_read_in_place(rng: np.random.Generator) -> None:
    base = rng.standard_normal((6, 8, 10)).astype(np.float32)
    for view in (base.T, base[::2, 1:, ::-3], np.broadcast_to(base[:, :1], base.shape)):
        expected = 2 * view + np.float32(1)
        np.testing.assert_array_equal(
            run_numpy("my_add", [view, np.ones(1, np.float32)])[0], expected
        )
    tensor = to_torch(base)
    for view in (tensor.permute(2, 0, 1), tensor[::2, 1:, ::3], tensor[:, :1].expand(6, 8, 10)):
        torch.testing.assert_close(myops.my_add(view, view), 3 * view, rtol=1e-6, atol=1e-6)


def test_channels_last_stays_channels_last() -> None:
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    assert myops.my_add(x, x).is_contiguous(memory_format=torch.channels_last)
    assert myops.my_add(x, torch.randn(1, 3, 1, 1)).is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(myops.my_add(x, x), 2 * x + x, rtol=0, atol=0)


def _in_any_order(generator: torch.Generator, dtype: torch.dtype) -> list[torch.Tensor]:
    """Two operands with axes in different orders in memory; some axes are repeated, some have
    gaps."""
    rank = int(torch.randint(1, 6, (), generator=generator))
    lengths = [int(torch.randint(1, 41 if rank < 4 else 9, (), generator=generator))
               for _ in range(rank)]  # fmt: skip
    operands = []
    for _ in range(2):
        order = torch.randperm(rank, generator=generator).tolist()
        repeated = torch.rand(rank, generator=generator) < 0.2
        step = 2 if torch.rand((), generator=generator) < 0.2 else 1
        stored = [1 if repeated[axis] else lengths[axis] * step for axis in order]
        numbers = (torch.randn(stored, generator=generator) * 9).to(dtype)
        tensor = numbers.permute([order.index(axis) for axis in range(rank)])
        operands.append(tensor[tuple(slice(None, None, step) for _ in range(rank))])
    return operands


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int32])
def test_results_have_the_strides_of_torch(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(5)
    for _ in range(200):
        a, b = _in_any_order(generator, dtype)
        want = torch.add(a, b)  # its strides are those that PyTorch chooses
        got = myops.my_add(a, b)
        label = f"{a.shape} {a.stride()} + {b.shape} {b.stride()}"
        significant = [axis for axis, length in enumerate(want.shape) if length > 1]
        expected = [want.stride(axis) for axis in significant]
        assert [got.stride(axis) for axis in significant] == expected, label
        assert torch.equal(got, myops.my_add(a.contiguous(), b.contiguous())), label
        assert torch.equal(got, (2 * a.double() + b.double()).to(dtype)) or dtype != torch.int32
        with torch._subclasses.FakeTensorMode() as mode:
            fake = myops.my_add(mode.from_tensor(a), mode.from_tensor(b))
        assert fake.stride() == got.stride(), label
        for order in (torch.empty_like(got), torch.empty(got.shape, dtype=dtype)):
            memory = torch.full([got.numel() + 64], 77, dtype=dtype)
            out = memory[32:-32].as_strided(got.shape, order.stride(), 32)
            myops.my_add(a, b, out=out)
            assert torch.equal(out, got), label
            assert bool((memory[:32] == 77).all() and (memory[-32:] == 77).all()), label


def test_every_bfloat16_value_is_rounded_alike_in_vectors_and_alone() -> None:
    """Vectors round pairs of values; NaN and infinities keep the bits of a single element."""
    every = torch.arange(-32768, 32768, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    for number in (0.0, 1.0, -3.1875, 1e38, float("inf")):  # which of two NaN stays is not said
        b = torch.full_like(every, number)
        got = myops.my_add(every, b)
        right = (2 * every.float() + b.float()).to(torch.bfloat16)
        torch.testing.assert_close(got, right, rtol=0, atol=0, equal_nan=True)
        alone = [myops.my_add(*pair) for pair in zip(every.split(5), b.split(5), strict=True)]
        assert torch.equal(torch.cat(alone).view(torch.int16), got.view(torch.int16))
        for pair, same in (((every, b[:1]), got), ((b[:1], every), myops.my_add(b, every))):
            assert torch.equal(myops.my_add(*pair).view(torch.int16), same.view(torch.int16))


def test_out_with_other_strides_is_refused() -> None:
    a = torch.randn(3, 4, 5).permute(2, 0, 1)
    out = torch.empty(4, 5, 3).permute(1, 2, 0)
    with pytest.raises(RuntimeError, match=r"out: got strides \[3, 1, 15\], expected contiguous "
                       r"memory, or strides \[1, 20, 5\]"):  # fmt: skip
        myops.my_add(a, a, out=out)


def test_compiled_calls_keep_the_strides() -> None:
    def run(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return myops.my_add(a, b).relu()

    a, b = torch.randn(3, 4, 5).permute(2, 0, 1), torch.randn(3, 1)
    compiled = torch.compile(run, backend="aot_eager", dynamic=True)
    got = compiled(a, b)
    assert got.stride() == run(a, b).stride() == (2 * a + b).stride()
    assert torch.equal(got, run(a, b))


REFUSALS = [
    ([np.ones(4, "f4"), np.ones(3, "f4")],
     "my_add: b: got length 3 on axis 0, expected 1 or 4, the length of a there"),
    ([np.ones(4, "f4"), np.ones(4, "f8")],
     "my_add: b: got dtype float64, expected float32, the dtype of a"),
]  # fmt: skip


@pytest.mark.parametrize(("inputs", "text"), REFUSALS)
def test_refusals_have_the_same_text_in_every_runtime(inputs: list[np.ndarray], text: str) -> None:
    with pytest.raises(RuntimeError) as eager:
        run_torch("my_add", inputs)
    with pytest.raises(ValueError, match="my_add") as numpy:
        run_numpy("my_add", inputs)
    assert str(eager.value) == str(numpy.value) == text
    with pytest.raises(Exception, match=r"my_add|MyAdd") as session:
        run_ort("my_add", inputs)
    if "dtype" not in text:  # ONNX Runtime checks types before it asks any op
        assert text in str(session.value)
    with torch._subclasses.FakeTensorMode() as mode, pytest.raises(RuntimeError) as fake:
        myops.my_add(*[mode.from_tensor(to_torch(array)) for array in inputs])
    assert text in str(fake.value)


def test_an_undeclared_dtype_is_refused() -> None:
    text = "my_add: a: got dtype bool, expected float16, bfloat16, float32, float64, int32 or int64"
    for run, error in ((run_torch, RuntimeError), (run_numpy, ValueError)):
        with pytest.raises(error) as info:
            run("my_add", [np.ones(2, bool), np.ones(2, bool)])
        assert str(info.value) == text


@pytest.mark.parametrize(("a_shape", "b_shape"), CASES[:6])
def test_gradients_of_first_to_third_order(
    a_shape: tuple[int, ...], b_shape: tuple[int, ...]
) -> None:
    a = torch.randn(a_shape, dtype=torch.float64, requires_grad=True)
    b = torch.randn(b_shape, dtype=torch.float64, requires_grad=True)
    for function in (myops.my_add, torch.ops.myops.my_add):
        assert torch.autograd.gradcheck(function, (a, b))
        assert torch.autograd.gradgradcheck(function, (a, b))
    cubed = (myops.my_add(a, b) ** 3).sum()
    (first,) = torch.autograd.grad(cubed, a, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), a, create_graph=True)
    (third,) = torch.autograd.grad(second.sum(), a)
    copies = torch.broadcast_shapes(a_shape, b_shape).numel() / a.numel()
    torch.testing.assert_close(third, torch.full_like(third, 48.0 * copies))


def test_only_the_needed_gradient_is_computed() -> None:
    a, b = torch.randn(3, requires_grad=True), torch.randn(3)
    myops.my_add(a, b).sum().backward()
    torch.testing.assert_close(a.grad, torch.full((3,), 2.0))
    assert b.grad is None


def test_torch_func_transforms() -> None:
    a, b = torch.randn(5, 3, 4), torch.randn(4)
    vmap = torch.func.vmap
    torch.testing.assert_close(vmap(myops.my_add, (0, None))(a, b), 2 * a + b)
    torch.testing.assert_close(
        vmap(myops.my_add, (1, 0))(a.movedim(0, 1), torch.ones(5, 2, 3, 4)),
        2 * a[:, None] + torch.ones(5, 2, 3, 4),
    )
    torch.testing.assert_close(
        vmap(vmap(myops.my_add, (0, None)), (0, None))(a, torch.tensor(1.0)), 2 * a + 1
    )
    assert torch.func.grad(lambda x: myops.my_add(x, x).sum())(b).tolist() == [3.0] * 4
    hessian = torch.func.hessian(lambda x: (myops.my_add(x, x) ** 2).sum())(b)
    torch.testing.assert_close(hessian, 18 * torch.eye(4))
    per_sample = vmap(torch.func.grad(lambda x: (myops.my_add(x, b) ** 2).sum()))(a[:, 0])
    torch.testing.assert_close(per_sample, 4 * (2 * a[:, 0] + b))


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_calls_equal_eager_calls(dynamic: bool) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda a, b: myops.my_add(a, b).relu(), fullgraph=True, dynamic=dynamic
    )
    for rows in (3, 5):
        a = torch.randn(rows, 4, requires_grad=True)
        b = torch.randn(4, requires_grad=True)
        result = compiled(a, b)
        torch.testing.assert_close(result, (2 * a + b).relu())
        gradients = torch.autograd.grad(result.sum(), (a, b))
        expected = torch.autograd.grad((2 * a + b).relu().sum(), (a, b))
        torch.testing.assert_close(gradients, expected)


def doubled(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return myops.my_add(a, b)


def test_export_script_and_trace(tmp_path: object) -> None:
    class Model(torch.nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return myops.nn.MyAdd()(a, b) * 3

    a, b = torch.randn(3, 4), torch.randn(4)
    rows = torch.export.Dim("rows")
    program = torch.export.export(Model(), (a, b), dynamic_shapes={"a": {0: rows}, "b": None})
    targets = [node.target for node in program.graph.nodes]
    assert torch.ops.myops.my_add.default in targets
    wide = torch.randn(7, 4)
    torch.testing.assert_close(program.module()(wide, b), 3 * (2 * wide + b))
    scripted = torch.jit.script(doubled)
    torch.testing.assert_close(scripted(a, b), 2 * a + b)
    scripted.save(f"{tmp_path}/my_add.pt")
    torch.testing.assert_close(torch.jit.load(f"{tmp_path}/my_add.pt")(a, b), 2 * a + b)
    traced = torch.jit.trace(Model(), (a, b))
    torch.testing.assert_close(traced(wide, b), 3 * (2 * wide + b))


@pytest.mark.parametrize("requires_grad", [False, True])
def test_opcheck_passes(requires_grad: bool) -> None:
    samples = [
        (torch.randn(3, 4), torch.randn(4)),
        (torch.randn(3, 1), torch.randn(1, 4)),
        (torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),) * 2,
        (torch.randn(4, 3).T, torch.randn(3, 4)),
    ]
    for sample in samples:
        arguments = [item.clone().requires_grad_(requires_grad) for item in sample]
        torch.library.opcheck(torch.ops.myops.my_add.default, arguments)


def test_meta_tensors_give_meta_results() -> None:
    result = myops.my_add(torch.empty(3, 1, device="meta"), torch.empty(4, device="meta"))
    assert result.shape == (3, 4)
    assert result.device.type == "meta"


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype != "bfloat16"])
@pytest.mark.parametrize("shape", [(), (3, 4), (129, 257), (3, 1_000_003)])
def test_onnxruntime_reuses_the_memory_of_inputs(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: str
) -> None:
    """Between nodes, ONNX Runtime lets the result overwrite the first input, the second, or
    both."""
    given = {"a": random_array(rng, shape, dtype), "b": random_array(rng, shape[-1:], dtype)}
    steps = ["a b", "s0 a", "b s1", "s2 s2", "s3 b", "a s4", "s5 a"]
    sums, nodes = dict(given), []
    for number, names in enumerate(steps):
        (sums[f"s{number}"],) = run_numpy("my_add", [sums[name] for name in names.split()])
        nodes.append(helper.make_node("MyAdd", names.split(), [f"s{number}"], domain="myops"))
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    values = {
        name: helper.make_tensor_value_info(name, kind, array.shape) for name, array in sums.items()
    }
    graph = helper.make_graph(nodes, "sums", [values["a"], values["b"]], [values["s6"]])
    opsets = [helper.make_opsetid("", 19), helper.make_opsetid("myops", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    assert_equal_bits(myops.ort.session(model).run(None, given)[0], sums["s6"])


@pytest.mark.parametrize("row", [19, 67, 601])
def test_rows_of_a_large_result(row: int) -> None:
    """Rows that are no whole cache lines. With non-temporal stores in short ones, my_add took 25
    times as long as torch."""
    rows = 24 * 2**20 // (8 * row * 4)
    a = torch.arange(4 * rows * row, dtype=torch.float64).view(4, rows, row)
    b = torch.randn(4, 1, row, dtype=torch.float64)
    ran = myops.explain(myops.my_add, a, b)
    assert torch.equal(ran.result, 2 * a + b)
    kernels = {step.kernel for step in ran.call.plan}
    assert "contiguous" in kernels
    assert row > 19 or "non_temporal" not in kernels
