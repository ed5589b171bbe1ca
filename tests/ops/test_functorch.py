"""torch.func: batches of any length, and derivatives in forward mode."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vmap

import myops

WEIGHT, OFFSET = torch.rand(3, 2, 1, 1), torch.rand(1, 2, 4, 5)
SCALES = torch.tensor([1.0, 1.0, 2.0, 2.0])
ROWS = torch.rand(2, 4, 5)
below = torch.ops.myops

CALLS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "my_add": lambda x: myops.my_add(x, ROWS.to(x.device)),
    "resize": lambda x: myops.resize(x, [1, 1, 2, 2], mode="linear"),
    "resize by a tensor": lambda x: myops.resize(x, SCALES),
    "interpolate": lambda x: myops.interpolate(x, size=(3, 9), mode="bicubic"),
    "deform_conv2d": lambda x: myops.deform_conv2d(x, OFFSET.to(x.device), WEIGHT.to(x.device)),
    "torch.ops my_add": lambda x: below.my_add(x, ROWS.to(x.device)),
    "torch.ops resize": lambda x: below.resize(x, None, SCALES),
    "torch.ops resize.values": lambda x: below.resize.values(x, None, None, [1, 2, 3, 4]),
    "torch.ops deform_conv2d": lambda x: below.deform_conv2d(
        x, WEIGHT.to(x.device), OFFSET.to(x.device)
    ),
}
FUNCTIONS = [name for name in CALLS if not name.startswith("torch.ops")]
X = torch.rand(2, 1, 2, 4, 5)
each_call = pytest.mark.parametrize("name", CALLS)


@each_call
@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize(("axis", "result_axis"), [(0, 0), (2, 3), (4, 1)])
def test_vmap_over_any_axis_and_batch_size(
    name: str, count: int, axis: int, result_axis: int
) -> None:
    call, batch = CALLS[name], torch.rand(count, 1, 2, 4, 5).movedim(0, axis)
    found = vmap(call, in_dims=axis, out_dims=result_axis)(batch)
    single = call(torch.rand(1, 2, 4, 5))
    shape = list(single.shape)
    shape.insert(result_axis, count)
    assert list(found.shape) == shape
    assert found.dtype == single.dtype
    for one, other in zip(found.unbind(result_axis), batch.unbind(axis), strict=True):
        torch.testing.assert_close(one, call(other))


@each_call
@pytest.mark.parametrize(("outer", "inner"), [(0, 2), (2, 0), (0, 0), (2, 3)])
def test_nested_vmap_with_empty_batches(name: str, outer: int, inner: int) -> None:
    found = vmap(vmap(CALLS[name]))(torch.rand(outer, inner, 1, 2, 4, 5))
    assert found.shape == (outer, inner, *CALLS[name](X[0]).shape)


@each_call
def test_an_empty_batch_is_differentiable(name: str) -> None:
    x = torch.rand(0, 1, 2, 4, 5, requires_grad=True)
    vmap(CALLS[name])(x).sum().backward()
    assert x.grad is not None
    assert x.grad.shape == x.shape


@pytest.mark.parametrize("name", FUNCTIONS)
def test_transforms_of_an_empty_batch(name: str) -> None:
    call, x = CALLS[name], torch.rand(0, 1, 2, 4, 5)
    assert vmap(grad(lambda x: call(x).sum()))(x).shape == x.shape
    assert grad(lambda x: vmap(call)(x).sum())(x).shape == x.shape
    assert vmap(lambda x: jvp(call, (x,), (x,))[1])(x).shape == (0, *call(X[0]).shape)
    assert torch.compile(vmap(call), backend="aot_eager")(x).shape == (0, *call(X[0]).shape)


@pytest.mark.parametrize("dtype", [torch.float16, torch.uint8, torch.float64])
def test_an_empty_batch_has_the_dtype_of_others(dtype: torch.dtype) -> None:
    x = torch.ones(0, 1, 2, 4, 5).to(dtype)
    assert vmap(lambda x: myops.resize(x, [1, 1, 2, 2]))(x).dtype == dtype


def test_an_empty_batch_of_scales_has_no_shape() -> None:
    with pytest.raises(RuntimeError, match="resize: scales: got a batch of 0, expected at least 1"):
        vmap(myops.resize)(torch.rand(0, 1, 1, 2, 2), torch.rand(0, 4))


@each_call
def test_vmap_over_strided_and_differentiable_batches(name: str) -> None:
    batch = torch.rand(3, 1, 2, 5, 4).mT
    found = vmap(CALLS[name])(batch)
    torch.testing.assert_close(found, torch.stack([CALLS[name](x) for x in batch]))
    leaf = batch.clone().requires_grad_()
    vmap(CALLS[name])(leaf).square().sum().backward()
    other = batch.clone().requires_grad_()
    torch.stack([CALLS[name](x) for x in other]).square().sum().backward()
    torch.testing.assert_close(leaf.grad, other.grad)
    assert vmap(CALLS[name])(X.to("meta")).is_meta


SETTINGS = [
    {"mask": mask, "bias": bias, "groups": groups, "offset_groups": offset_groups, "stride": stride}
    for mask, bias, (groups, offset_groups), stride in itertools.product(
        (False, True), (False, True), ((1, 1), (2, 2), (2, 1), (1, 2)), (1, (2, 1))
    )
]


def deformed(
    mask: bool, bias: bool, groups: int, offset_groups: int, stride: Any
) -> tuple[Callable[..., torch.Tensor], list[torch.Tensor]]:
    """A call and its arguments in float64, with no position near an integer, where the gradient
    jumps."""

    def numbers(*shape: int) -> torch.Tensor:
        return torch.randn(shape, dtype=torch.float64)

    x, weight = numbers(1, 2 * groups, 4, 3), numbers(2 * groups, 2, 2, 2)
    rows, columns = (5, 4) if stride == 1 else (3, 4)
    shape = (1, 2 * offset_groups * 4, rows, columns)
    offset = (torch.rand(shape, dtype=torch.float64) * 0.8 + 0.1) + torch.randint(-1, 1, shape)
    arguments = [x, offset, weight]
    if bias:
        arguments.append(numbers(2 * groups))
    if mask:
        arguments.append(numbers(1, offset_groups * 4, rows, columns))

    def call(x: Any, offset: Any, weight: Any, *rest: Any) -> torch.Tensor:
        return myops.deform_conv2d(
            x, offset, weight, rest[0] if bias else None, stride, 1, 1, rest[-1] if mask else None
        )

    return call, arguments


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda item: "-".join(map(str, item.values())))
def test_forward_mode_of_deform_conv2d_against_differences(setting: Any) -> None:
    """Against finite differences, in one random direction for every argument at once."""
    call, arguments = deformed(**setting)
    leaves = [item.requires_grad_() for item in arguments]
    torch.autograd.gradcheck(call, leaves, check_forward_ad=True, fast_mode=True)
    torch.autograd.gradgradcheck(call, leaves, check_fwd_over_rev=True, fast_mode=True)


@pytest.mark.parametrize("place", range(5))
def test_forward_mode_of_deform_conv2d_for_one_argument(place: int) -> None:
    call, arguments = deformed(True, True, 2, 2, 1)
    arguments[place].requires_grad_()
    torch.autograd.gradcheck(call, arguments, check_forward_ad=True, fast_mode=True)
    torch.autograd.gradgradcheck(
        lambda *given: call(*given).square(), arguments, check_fwd_over_rev=True, fast_mode=True
    )


@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_hessians_of_every_combination_of_modes_agree(mask: bool, bias: bool) -> None:
    """Forward over reverse, reverse over forward and reverse over reverse are the same numbers."""
    call, arguments = deformed(mask, bias, 1, 1, (2, 1))
    places = tuple(range(len(arguments)))

    def loss(*given: torch.Tensor) -> torch.Tensor:
        return call(*given).square().sum()

    expected = jacrev(jacrev(loss, places), places)(*arguments)
    assert expected[1][1].abs().max() > 1
    torch.testing.assert_close(hessian(loss, places)(*arguments), expected)
    torch.testing.assert_close(jacrev(jacfwd(loss, places), places)(*arguments), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_forward_mode_in_other_dtypes(dtype: torch.dtype) -> None:
    call, arguments = deformed(True, True, 2, 1, 1)
    moves = [torch.randn_like(item) for item in arguments]
    _, expected = jvp(call, tuple(arguments), tuple(moves))
    narrow = [tuple(item.to(dtype) for item in items) for items in (arguments, moves)]
    _, found = jvp(call, *narrow)
    assert found.dtype == dtype
    scale = expected.abs().max()
    assert (found - expected).abs().max() < 60 * torch.finfo(dtype).eps * scale


def test_unsupported_derivatives_are_refused() -> None:
    call, arguments = deformed(True, True, 1, 1, 1)
    with pytest.raises(NotImplementedError, match=r"no derivative in forward mode. Take it in rev"):
        jacfwd(jacfwd(lambda x: call(x, *arguments[1:]).sum()))(arguments[0])
    leaves = [item.requires_grad_() for item in arguments]
    total = call(*leaves).square().sum()
    for _ in range(2):
        grads = torch.autograd.grad(total, leaves, create_graph=True)
        total = torch.stack([item.square().sum() for item in grads]).sum()
    with pytest.raises(RuntimeError, match="deform_conv2d is differentiable twice, not three"):
        torch.autograd.grad(total, leaves)


def test_gradients_of_torch_ops_say_which_function_to_call() -> None:
    """torch's own text asks for a method of a class that the caller did not write."""
    words = r"my_add: got torch.ops.myops.my_add with a gradient in a transform of torch.func, "
    for transform in (grad, lambda f: vmap(grad(f)), jacrev):
        with pytest.raises(NotImplementedError, match=words + "expected the function that calls"):
            transform(lambda x: below.my_add(x, x).sum())(torch.rand(3, 4))
    assert grad(lambda x: myops.my_add(x, x).sum())(torch.rand(3)).tolist() == [3, 3, 3]
