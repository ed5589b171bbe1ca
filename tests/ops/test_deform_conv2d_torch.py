"""deform_conv2d in torch: layouts, gradients that are asked for, compile, export, memory."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import pytest
import torch
import warm
from deform_cases import CASES, DTYPES, arrays, build, call, expected
from runtimes import assert_equal_bits, run_numpy, to_numpy

import myops.nn  # loads the ops
from myops.testing.variations import strided

OPS = torch.ops.myops


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", [CASES[0], CASES[1], CASES[8]])  # batch 1, 33, 0
def test_strides_are_read_in_place(case: tuple[Any, ...], dtype: str) -> None:
    tensors, attributes = build(case, dtype=dtype)
    (wanted,) = run_numpy("deform_conv2d", arrays(tensors), attributes)
    views = [strided(item) for item in tensors]
    assert not any(item.is_contiguous() for item in views if item.numel() > 1)
    assert_equal_bits(to_numpy(call(views, attributes)), wanted)
    last = [item.to(memory_format=torch.channels_last) if item.dim() == 4 else item
            for item in tensors]  # fmt: skip
    assert_equal_bits(to_numpy(call(last, attributes).contiguous()), wanted)
    backwards = [np.ascontiguousarray(item[..., ::-1])[..., ::-1] for item in arrays(tensors)]
    assert_equal_bits(run_numpy("deform_conv2d", backwards, attributes)[0], wanted)
    spread = [tensors[0][:1].expand_as(tensors[0]), *tensors[1:]]
    copies = [item.contiguous() for item in spread]
    assert torch.equal(call(spread, attributes), call(copies, attributes))


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_in_every_dtype(dtype: str, layout: torch.memory_format) -> None:
    tensors, attributes = build(CASES[1], dtype=dtype)
    leaves = [item.detach().requires_grad_() for item in tensors]
    x = leaves[0].to(memory_format=layout)
    result = call([x, *leaves[1:]], attributes)
    grad = torch.randn_like(result)
    gradients = torch.autograd.grad(result, leaves, grad)
    exact = [item.detach().double().requires_grad_() for item in tensors]
    wanted = torch.autograd.grad(expected(exact, attributes), exact, grad.double())
    limit = {"float64": 1e-12, "float32": 1e-4, "float16": 4e-3, "bfloat16": 3e-2}[dtype]
    for one, other in zip(gradients, wanted, strict=True):
        assert one.dtype == leaves[0].dtype
        assert (one - other).abs().max() <= limit * other.abs().max()


@pytest.mark.parametrize("name", ["deform_conv2d_backward", "deform_conv2d_backward_backward"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_do_not_depend_on_threads(name: str, dtype: str) -> None:
    tensors, attributes = build(CASES[1], dtype=dtype)
    x, weight, offset, _, mask = arrays(tensors)
    grad = to_numpy(torch.randn_like(call(tensors, attributes)))
    inputs = [grad, x, weight, offset, mask]
    if name.endswith("backward_backward"):
        inputs += [item[::-1].copy() for item in inputs[1:]]
    first = run_numpy(name, inputs, attributes, threads=1)
    for threads in (2, 7):
        for one, other in zip(first, run_numpy(name, inputs, attributes, threads), strict=True):
            assert_equal_bits(one, other)


@pytest.mark.parametrize("number", range(5))
def test_only_the_needed_gradient_is_computed(number: int) -> None:
    tensors, attributes = build(CASES[0])
    leaves = [item.requires_grad_(i == number) for i, item in enumerate(tensors)]
    everything = [item.detach().requires_grad_() for item in tensors]
    call(leaves, attributes).square().sum().backward()
    call(everything, attributes).square().sum().backward()
    for i, (item, other) in enumerate(zip(leaves, everything, strict=True)):
        if i == number:
            assert torch.equal(item.grad, other.grad)
        else:
            assert item.grad is None


def test_second_order_against_the_reference() -> None:
    """A penalty on gradients, as in users' wishes for it, through all five inputs."""
    tensors, attributes = build(CASES[2], size=(7, 6))
    results = []
    for function in (call, expected):
        leaves = [item if item is None else item.detach().requires_grad_() for item in tensors]
        given = [item for item in leaves if item is not None]
        loss = function(leaves, attributes).tanh().sum()
        first = torch.autograd.grad(loss, given, create_graph=True)
        penalty = sum(item.square().sum() for item in first)
        results.append(torch.autograd.grad(penalty, given))
    torch.testing.assert_close(*results, rtol=1e-9, atol=1e-9)


def test_positions_without_a_sample_have_no_gradient() -> None:
    tensors, attributes = build(CASES[0])
    for value in (float("nan"), float("inf"), -1e30, 1e30):
        leaves = [item.detach().clone() for item in tensors]
        leaves[2][..., ::2, :] = value
        for item in leaves:
            item.requires_grad_()
        gradients = torch.autograd.grad(call(leaves, attributes).square().sum(), leaves,
                                        create_graph=True)  # fmt: skip
        second = torch.autograd.grad(sum(g.square().sum() for g in gradients), leaves)
        for item in (*gradients, *second):
            assert item.isfinite().all()
        for item in (gradients[2], gradients[4], second[2], second[4]):
            assert not item[..., ::2, :].any()
            assert item[..., 1::2, :].any()


def test_opcheck() -> None:
    for case in (CASES[0], CASES[2]):
        tensors, attributes = build(case, dtype="float32")
        last = [tensors[0].to(memory_format=torch.channels_last), *tensors[1:]]
        for given in (tensors, last):
            leaves = [item if item is None else item.clone().requires_grad_() for item in given]
            torch.library.opcheck(OPS.deform_conv2d.default, leaves, attributes)
        x, weight, offset, _, mask = tensors
        grad = torch.randn_like(call(tensors, attributes))
        inputs = [grad, x, weight, offset, mask]
        leaves = [item if item is None else item.clone().requires_grad_() for item in inputs]
        torch.library.opcheck(OPS.deform_conv2d_backward.default, leaves, attributes)
        some = {**attributes, "needs": [1, 0, 1, 0]}
        torch.library.opcheck(OPS.deform_conv2d_backward.default, inputs, some)
        every = [*inputs, *[item if item is None else item.flip(0) for item in inputs[1:]]]
        torch.library.opcheck(OPS.deform_conv2d_backward_backward.default, every, attributes)


def test_compile_with_dynamic_lengths() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(call, fullgraph=True, dynamic=True, backend="aot_eager")
    for batch, size in ((2, (11, 9)), (3, (9, 12)), (4, (8, 8))):
        tensors, attributes = build((batch, *CASES[0][1:]), size=size, dtype="float32")
        leaves = [item.requires_grad_() for item in tensors]
        result, wanted = compiled(leaves, attributes), call(leaves, attributes)
        assert torch.equal(result, wanted)
        gradients = torch.autograd.grad(result.square().sum(), leaves)
        for one, other in zip(gradients, torch.autograd.grad(wanted.square().sum(), leaves),
                              strict=True):  # fmt: skip
            torch.testing.assert_close(one, other)


def test_export_with_symbolic_batch_height_and_width() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.moves = torch.nn.Conv2d(6, 54, (3, 2), (2, 1), (1, 0), (2, 1))
            self.weight = torch.nn.Parameter(torch.randn(4, 3, 3, 2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            offset, mask = self.moves(x).split([36, 18], 1)
            return myops.deform_conv2d(x, offset, self.weight, None, (2, 1), (1, 0), (2, 1),
                                       mask.sigmoid())  # fmt: skip

    dims = dict.fromkeys((0, 2, 3), torch.export.Dim.DYNAMIC)
    model = Model()
    program = torch.export.export(model, (torch.randn(2, 6, 12, 9),), dynamic_shapes={"x": dims})
    assert OPS.deform_conv2d.default in [node.target for node in program.graph.nodes]
    (value,) = [node.meta["val"] for node in program.graph.nodes
                if node.target == OPS.deform_conv2d.default]  # fmt: skip
    assert [isinstance(n, torch.SymInt) for n in value.shape] == [True, False, True, True]
    other = torch.randn(5, 6, 17, 7)
    assert torch.equal(program.module()(other), model(other))


def test_autocast() -> None:
    tensors, attributes = build(CASES[0], dtype="float32")
    halves = [item.bfloat16() for item in tensors]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(call(tensors, attributes), call(halves, attributes))
        mixed = [tensors[0], halves[1], *tensors[2:]]
        assert torch.equal(call(mixed, attributes), call(halves, attributes))
        doubles = [item.double() for item in tensors]
        assert call(doubles, attributes).dtype == torch.float64
    mixed = [tensors[0], halves[1], *tensors[2:]]
    with pytest.raises(RuntimeError, match="weight: got dtype bfloat16, expected float32"):
        call(mixed, attributes)


def test_function_transforms() -> None:
    tensors, attributes = build(CASES[0], size=(7, 6))
    stacked = [torch.stack([item, item.flip(0)]) for item in tensors]
    result = torch.func.vmap(lambda *given: call(given, attributes))(*stacked)
    for i in range(2):
        assert torch.equal(result[i], call([item[i] for item in stacked], attributes))

    def loss(mask: torch.Tensor, function: Any = call) -> torch.Tensor:
        return function([*tensors[:4], mask], attributes).tanh().sum()

    gradient = torch.func.grad(loss)(tensors[4])
    wanted = torch.func.grad(lambda mask: loss(mask, expected))(tensors[4])
    torch.testing.assert_close(gradient, wanted)


def refusals() -> list[Any]:
    (x, weight, offset, bias, mask), _ = build(CASES[0], dtype="float32")
    good = {"input": x, "offset": offset, "weight": weight, "bias": bias, "stride": (2, 1),
            "padding": (1, 0), "dilation": (2, 1), "mask": mask}  # fmt: skip
    changes: list[tuple[dict[str, Any], str]] = [
        ({"input": x[0]}, "input: got rank 3, shape "),
        ({"offset": offset[0]}, "offset: got rank 3, shape "),
        ({"weight": weight[0]}, "weight: got rank 3, shape "),
        ({"weight": weight[:, :, :, :1]}, "offset: got shape"),
        ({"weight": weight[:, :0]}, "weight: got shape [2, 0, 3, 2], expected one input channel"),
        ({"weight": weight[:, :, :0]}, "weight: got shape [2, 3, 0, 2], expected one input"),
        ({"weight": weight[:, :0], "input": x[:, :0]}, "weight: got shape [2, 0, 3, 2], expected"),
        ({"input": x[:, :5]}, "weight: got 5 channels of input, expected a positive multiple of 3"),
        ({"offset": offset[:, :10]},
         "offset: got 10 channels of offset, expected a positive multiple of 12"),
        ({"stride": (1, 1, 1)}, "stride: got 3 numbers, expected 1 or 2"),
        ({"padding": (1, 1, 1)}, "padding: got 3 numbers, expected 1, 2 or 4"),
        ({"dilation": ()}, "dilation: got 0 numbers, expected 1 or 2"),
        ({"stride": 0}, "stride: got [0, 0], expected 2 numbers from 1"),
        ({"mask": mask[:, :6]}, "mask: got shape [1, 6,"),
        ({"bias": bias[:1]}, "bias: got shape [1], expected shape [2]"),
        ({"offset": offset.double()}, "offset: got dtype float64, expected float32"),
        ({"input": x.int()}, "input: got dtype int32, expected float16, bfloat16, float32 or"),
    ]  # fmt: skip
    return [({**good, **change}, text) for change, text in changes]


@pytest.mark.parametrize("number", range(17))
def test_refusals_of_the_public_function(number: int) -> None:
    named, text = refusals()[number]
    with pytest.raises(RuntimeError, match=r"^deform_conv2d: ") as eager:
        myops.deform_conv2d(**named)
    assert text in str(eager.value)
    if "dtype" in text:
        return
    fakes = {}
    with torch._subclasses.FakeTensorMode() as mode:
        for name, item in named.items():
            fakes[name] = mode.from_tensor(item) if isinstance(item, torch.Tensor) else item
        with pytest.raises(RuntimeError) as fake:
            myops.deform_conv2d(**fakes)
    assert str(eager.value) in str(fake.value)


# Its own process: nothing else may have touched the peak. No torch, which is not what is measured.
MEASURE = """
import json, sys
import numpy as np
from myops import _dtypes
from myops._numpy_call import call

def status(field):
    return next(int(line.split()[1]) for line in open("/proc/self/status")
                if line.startswith(field)) * 1024

name, threads, shapes = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
dtype = _dtypes.numpy_dtype(sys.argv[4])
inputs = [np.ones(shape, dtype) if shape else None for shape in shapes]
pads = {"pads": [1, 1, 1, 1]}
small = [np.ones(shape, dtype) for shape in ([1, 1, 2, 2], [1, 1, 3, 3], [1, 18, 2, 2])]
call("deform_conv2d", [*small, None, None], pads, threads)
idle = status("VmHWM") - status("VmRSS")
before, code = status("VmHWM"), status("RssFile")
outputs = call(name, inputs, pads, threads)
taken = sum(item.nbytes for item in outputs)
code = status("RssFile") - code  # pages of the kernels that the call was the first to read
print(json.dumps([idle, status("VmHWM") - before - taken - code]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize(
    ("channels", "outputs", "size"), [(64, 64, 192), (2048, 16, 24), (3, 64, 512)]
)  # column matrices of 81, 40 and 27 MiB
@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_scratch_memory(
    dtype: str, order: int, channels: int, outputs: int, size: int, threads: int
) -> None:
    image, result = [1, channels, size, size], [1, outputs, size, size]
    weight, offset, mask = [outputs, channels, 3, 3], [1, 18, size, size], [1, 9, size, size]
    inputs = [image, weight, offset, None, mask]
    if order > 0:
        inputs = [result, image, weight, offset, mask]
    if order > 1:
        inputs += inputs[1:]
    name = "deform_conv2d" + "_backward" * order
    run = warm.run("-c", MEASURE, name, threads, json.dumps(inputs), dtype)
    assert run.returncode == 0, run.stderr
    idle, extra = json.loads(run.stdout)
    assert idle < 2**20  # else it could hide what the kernel takes
    # The call starts the threads: each has a stack and an arena of the allocator besides.
    limit = (2 * threads + 1) * 2**20 + threads * 2**18
    if order > 0 and dtype != "float32":  # docs/ops.md: the sums of the gradient of X
        limit += min(threads * 32 * 2**20, 2 * 2 * channels * size * size)
        if threads > 1 and order == 1 and channels <= 3:  # parts that wait for their turn
            limit += int(8 * 1.3 * 2**20)
    assert extra <= limit
