"""Programs for torch.compile whose lengths only the data decides (torch: unbacked lengths)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

import myops

Program = Callable[..., Tensor]


@pytest.fixture(autouse=True)
def _capture() -> Iterator[None]:
    torch._dynamo.reset()
    caches = torch._inductor.config.patch(force_disable_caches=True)
    with caches, torch._dynamo.config.patch(capture_scalar_outputs=True):
        yield
    torch._dynamo.reset()


def rows(x: Tensor, count: Tensor) -> Tensor:
    return torch.narrow(x, 2, 0, count.item())


def enlarge(x: Tensor, factors: Tensor, mode: str = "bilinear") -> Tensor:
    return myops.interpolate(x, scale_factor=factors, mode=mode)


def deform(x: Tensor, offsets: Tensor, weight: Tensor) -> Tensor:
    return myops.deform_conv2d(x, offsets.expand(-1, 18, *x.shape[2:]), weight, padding=1)


PROGRAMS: dict[str, Program] = {
    "my_add of a part": lambda x, b, n, s, w: myops.my_add(rows(x, n), b),
    "my_add of two parts": lambda x, b, n, s, w: myops.my_add(rows(x, n), rows(x, n).exp()),
    "my_add of two layouts": lambda x, b, n, s, w: myops.my_add(
        rows(x, n), b.expand_as(rows(x, n))
    ),
    "my_add of a flat list": lambda x, b, n, s, w: myops.my_add(x[x > 0], x[x > 0]),
    "my_add of factors in the graph": lambda x, b, n, s, w: myops.my_add(enlarge(x, s), b),
    "interpolate twice": lambda x, b, n, s, w: enlarge(enlarge(x, s), s, "nearest"),
    "interpolate a part": lambda x, b, n, s, w: enlarge(rows(x, n), s),
    "interpolate a part to a size": lambda x, b, n, s, w: myops.interpolate(
        rows(x, n), size=(5, 9), mode="bicubic", antialias=True
    ),
    "interpolate some images": lambda x, b, n, s, w: enlarge(x[: n.item() // 4], s),
    "deform_conv2d of a part": lambda x, b, n, s, w: deform(rows(x, n), rows(x, n)[:, :1], w),
    "deform_conv2d of factors in the graph": lambda x, b, n, s, w: deform(
        enlarge(x, s), enlarge(x, s)[:, :1], w
    ),
}


def arguments() -> list[Tensor]:
    x, b, weight = torch.randn(2, 4, 12, 10), torch.randn(4, 1, 1), torch.randn(3, 4, 3, 3)
    return [x, b, torch.tensor(7), torch.tensor([1.5, 0.8]), weight]


# A part of a channels_last tensor is refused by ops whose results have the layout of it: see below.
LAYOUTS = [
    (name, channels_last)
    for name in PROGRAMS
    for channels_last in (False, True)
    if not (channels_last and "part" in name and "my_add" not in name)
]


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize(("name", "channels_last"), LAYOUTS)
def test_compiles_with_the_bits_of_eager(name: str, channels_last: bool, gradients: bool) -> None:
    program, given = PROGRAMS[name], arguments()
    if channels_last:
        given[0] = given[0].to(memory_format=torch.channels_last)
    leaves = [item.requires_grad_() for item in (given[0], given[1], given[4]) if gradients]
    compiled = torch.compile(program, fullgraph=True, backend="aot_eager")
    result, expected = compiled(*given), program(*given)
    assert torch.equal(result, expected)
    assert result.stride() == expected.stride()
    if gradients:
        cotangent = torch.randn(expected.shape)
        found = torch.autograd.grad(result, leaves, cotangent, allow_unused=True)
        wanted = torch.autograd.grad(expected, leaves, cotangent, allow_unused=True)
        for one, other in zip(found, wanted, strict=True):
            assert (one is None) == (other is None)
            torch.testing.assert_close(one, other)


def test_a_layout_that_depends_on_data_is_refused() -> None:
    """The result is channels_last where channels are closer to each other than columns."""

    def program(x: Tensor, n: Tensor) -> Tensor:
        step = n.item()
        torch._check(step < 9)
        return myops.interpolate(x.as_strided((1, 3, 4, 4), (64, step, 16, 4)), size=(5, 9))

    compiled = torch.compile(program, fullgraph=True, backend="aot_eager")
    text = r"resize: X: .*expected \.contiguous\(\) before"
    with pytest.raises(RuntimeError, match=text):
        compiled(torch.rand(200), torch.tensor(1))


def test_a_part_of_channels_last_compiles() -> None:
    x = arguments()[0].to(memory_format=torch.channels_last)

    def program(x: Tensor, n: Tensor) -> Tensor:
        return myops.interpolate(rows(x, n), size=(5, 9))

    compiled = torch.compile(program, fullgraph=True, backend="aot_eager")
    for count in (7, 12):
        result, expected = compiled(x, torch.tensor(count)), program(x, torch.tensor(count))
        assert torch.equal(result, expected)
        assert result.stride() == expected.stride()


def test_a_copy_of_such_a_part_compiles() -> None:
    x = arguments()[0].to(memory_format=torch.channels_last)

    def program(x: Tensor, n: Tensor) -> Tensor:
        part = rows(x, n).contiguous(memory_format=torch.channels_last)
        return myops.interpolate(part, size=(5, 9))

    compiled = torch.compile(program, fullgraph=True, backend="aot_eager")
    for count in (7, 12):
        result, expected = compiled(x, torch.tensor(count)), program(x, torch.tensor(count))
        assert torch.equal(result, expected)
        assert result.stride() == expected.stride()
