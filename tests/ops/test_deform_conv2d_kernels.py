"""Kernels of deform_conv2d, each named: that it runs, and what it computes, against the reference
in float64 and against a call that wants one gradient alone. See the tables in
csrc/ops/deform_conv2d/README.md. `MYOPS_ISA` chooses the instruction set."""

from __future__ import annotations

import re

import pytest
import torch
from cpu_choices import GATHERS
from deform_cases import DTYPES, build, call, expected

import myops
from myops import _numpy

NAMES = ("X", "W", "offset", "mask")
TOLERANCES = {"float64": 1e-10, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}
# Kernels for X, offset and mask, and for W. batch, channels, outputs, kernel, stride, padding,
# dilation, groups, offset groups, mask, bias; size of the image.
KERNELS = [
    # Many offset groups.
    ("whole_images", "with_data_gradient",
     (2, 80, 5, (3, 2), (1, 1), (1, 0), (1, 1), 1, 8, True, False), (9, 11)),
    ("whole_images", "with_data_gradient",
     (1, 80, 164, (2, 1), (1, 1), (0, 0), (1, 1), 2, 8, True, False), (33, 40)),
    ("whole_images", "jobs",
     (2, 80, 300, (1, 1), (1, 1), (0, 0), (1, 1), 1, 8, True, False), (5, 7)),
    ("whole_images", "with_data_gradient",
     (2, 30, 7, (3, 3), (1, 1), (1, 1), (1, 1), 1, 3, True, False), (9, 11)),
    # Two blocks of taps, and several tiles, which the parts of the sums share.
    ("whole_images", "with_data_gradient",
     (1, 20, 5, (5, 5), (1, 1), (2, 2), (1, 1), 1, 2, True, False), (40, 60)),
    ("whole_images", "with_data_gradient",
     (1, 24, 24, (3, 3), (1, 1), (1, 1), (1, 1), 24, 2, True, False), (9, 11)),  # depthwise
    # 300 outputs: two passes for the gradient of W.
    ("whole_images", "jobs",
     (1, 12, 300, (1, 1), (1, 1), (0, 0), (1, 1), 1, 1, True, False), (9, 11)),
    ("bands_of_tiles", "jobs",
     (1, 40, 7, (3, 3), (2, 2), (1, 1), (1, 1), 1, 1, True, False), (17, 13)),
]  # fmt: skip


def graph(case: tuple, size: tuple[int, int], dtype: str) -> tuple:
    """Tensors without bias, attributes, result and what arrives at it."""
    torch.manual_seed(3)
    tensors, attributes = build(case, size, dtype)
    near = (tensors[2] - tensors[2].round()).abs() < 0.02  # rounded onto an integer
    tensors[2] = torch.where(near, tensors[2].round() + 0.25, tensors[2])
    leaves = [None if t is None else t.detach().requires_grad_() for t in tensors]
    result = call(leaves, attributes)
    return tensors, attributes, leaves, result, torch.randn(result.shape).to(result.dtype)


def gradients(leaves: list, result: torch.Tensor, grad: torch.Tensor) -> tuple:
    return torch.autograd.grad(
        result, [t for t in leaves if t is not None], grad, retain_graph=True
    )


def check(tensors: list, attributes: dict, grad: torch.Tensor, got: tuple, dtype: str) -> None:
    wide = [None if t is None else t.double().requires_grad_() for t in tensors]
    wanted = gradients(wide, expected(wide, attributes), grad.double())
    for name, one, exact in zip(NAMES, got, wanted, strict=False):
        limit = TOLERANCES[dtype] * max(1.0, float(exact.abs().max()))
        assert (one.double() - exact).abs().max() <= limit, (name, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("data", "weights", "case", "size"), KERNELS)
def test_kernel(data: str, weights: str, case: tuple, size: tuple[int, int], dtype: str) -> None:
    tensors, attributes, leaves, result, grad = graph(case, size, dtype)
    ran = myops.explain(gradients, leaves, result, grad)
    chosen = {step.axis: step.kernel for step in ran.calls[0].plan}
    assert chosen == {"X, offset and mask": data, "W": weights}
    check(tensors, attributes, grad, ran.result, dtype)
    (alone,) = torch.autograd.grad(result, [leaves[1]], grad, retain_graph=True)
    if data == "whole_images":  # the same sums, whichever gradients are wanted
        assert torch.equal(ran.result[1], alone)


# 16-bit types whose sums of X are held for whole images.
NARROW = [
    ("whole_images", "with_data_gradient",
     (2, 24, 7, (3, 3), (1, 1), (1, 1), (1, 1), 1, 2, True, False), (9, 41)),
    ("whole_images", "with_data_gradient",  # two blocks of taps, several tiles
     (1, 9, 5, (5, 5), (1, 1), (2, 2), (1, 1), 1, 1, False, False), (40, 60)),
    ("bands_of_tiles", "jobs",
     (3, 140, 8, (3, 3), (2, 2), (1, 1), (1, 1), 2, 2, True, False), (17, 13)),
    ("bands_of_tiles", "jobs",  # two blocks of taps
     (1, 66, 7, (5, 5), (1, 1), (1, 1), (1, 1), 1, 1, True, False), (17, 33)),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(("data", "weights", "case", "size"), NARROW)
def test_narrow_images(
    data: str, weights: str, case: tuple, size: tuple[int, int], dtype: str
) -> None:
    """All gradients; each alone, by other kernels, with the same bits; both layouts."""
    tensors, attributes, leaves, result, grad = graph(case, size, dtype)
    for layout in (torch.contiguous_format, torch.channels_last):
        leaves = [
            None if t is None else t.detach().to(memory_format=layout).requires_grad_()
            for t in leaves
        ]
        result = call(leaves, attributes)
        ran = myops.explain(gradients, leaves, result, grad)
        chosen = {step.axis.split(",")[-1]: step.kernel for step in ran.calls[0].plan}
        assert set(chosen.values()) == {data, weights}
        check(tensors, attributes, grad, ran.result, dtype)
        present = [t for t in leaves if t is not None]
        for together, leaf in zip(ran.result, present, strict=True):
            (alone,) = torch.autograd.grad(result, [leaf], grad, retain_graph=True)
            assert torch.equal(together, alone)


# Few channels in an offset group. Names say what is special.
CELLS = {
    "several tiles": ((1, 1, 3, (3, 3), (1, 1), (1, 1), (1, 1), 1, 1, True, False), (40, 60)),
    "two blocks of taps": ((1, 4, 5, (5, 5), (1, 1), (2, 2), (1, 1), 1, 2, True, False), (40, 60)),
    "shares": ((2, 12, 8, (3, 2), (2, 1), (1, 0), (1, 2), 2, 4, True, False), (13, 12)),
    # Offset groups of 3 channels, weight groups of 4: some need the outputs of two.
    "straddling": ((1, 12, 6, (2, 2), (1, 1), (1, 1), (1, 1), 3, 4, True, False), (7, 16)),
    "depthwise": ((2, 6, 6, (3, 3), (1, 2), (1, 1), (1, 1), 6, 2, True, False), (9, 11)),
    "many groups": ((2, 16, 9, (2, 3), (1, 1), (0, 1), (1, 1), 1, 16, False, False), (9, 40)),
    "many outputs": ((1, 2, 300, (1, 1), (2, 2), (0, 0), (1, 1), 1, 1, True, False), (19, 33)),
    "rows longer than a tile": ((1, 3, 4, (1, 1), (1, 1), (0, 0), (1, 1), 1, 1, True, False),
                                (3, 310)),
    "shares of pairs": ((2, 8, 16, (3, 2), (2, 1), (1, 0), (1, 2), 8, 4, True, False), (13, 12)),
    "depthwise pairs": ((2, 4, 4, (3, 3), (1, 2), (1, 1), (1, 1), 4, 2, True, False), (9, 11)),
}  # fmt: skip
# 3 channels in an offset group, or few samples for each pixel of X.
MANY_FOR_FLOAT64 = ("shares", "straddling", "depthwise", "many outputs", "rows longer than a tile")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CELLS)
def test_cell_tables(name: str, dtype: str) -> None:
    """All gradients, and each alone with the same bits."""
    if dtype == "float64" and name in MANY_FOR_FLOAT64:
        tensors, attributes, leaves, result, grad = graph(*CELLS[name], dtype)
        ran = myops.explain(gradients, leaves, result, grad)
        assert "cell_tables" not in {step.kernel for step in ran.calls[0].plan}
        return check(tensors, attributes, grad, ran.result, dtype)
    tensors, attributes, leaves, result, grad = graph(*CELLS[name], dtype)
    ran = myops.explain(gradients, leaves, result, grad)
    chosen = {step.axis.split(",")[-1]: step.kernel for step in ran.calls[0].plan}
    assert set(chosen.values()) == {"cell_tables"}
    assert "W" in chosen
    check(tensors, attributes, grad, ran.result, dtype)
    present = [t for t in leaves if t is not None]
    for together, leaf in zip(ran.result, present, strict=True):
        (alone,) = torch.autograd.grad(result, [leaf], grad, retain_graph=True)
        assert torch.equal(together, alone)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("case", "size"),
    [
        ((2, 6, 7, (1, 1), (2, 2), (0, 0), (1, 1), 1, 2, True, False), (19, 33)),
        ((1, 4, 5, (2, 2), (2, 3), (0, 0), (1, 1), 1, 1, False, False), (19, 33)),
        ((1, 24, 8, (1, 1), (1, 1), (0, 0), (1, 1), 8, 3, True, False), (9, 40)),  # straddling
        ((1, 8, 8, (1, 2), (2, 2), (0, 1), (1, 1), 4, 1, True, False), (11, 24)),
    ],
)
def test_few_samples_of_a_pixel(case: tuple, size: tuple[int, int], dtype: str) -> None:
    """Tables of cells would take longer; for 16-bit gradients only with four channels."""
    tensors, attributes, leaves, result, grad = graph(case, size, dtype)
    ran = myops.explain(gradients, leaves, result, grad)
    tables = "cell_tables" in {step.kernel for step in ran.calls[0].plan}
    assert tables == (dtype in ("float16", "bfloat16") and case[1] != 4)
    check(tensors, attributes, grad, ran.result, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_cell_tables_of_distant_samples(dtype: str) -> None:
    """Samples too far apart for a table: the tile is computed in parts."""
    case = (1, 2, 3, (3, 1), (1, 1), (1, 0), (1, 1), 1, 1, True, False)
    tensors, attributes, leaves, result, grad = graph(case, (150, 260), dtype)
    torch.manual_seed(8)
    offset = tensors[2].clone()
    far = torch.rand(offset.shape) < 0.3
    step = torch.randint(-90, 90, offset.shape)
    offset = torch.where(far, offset + step.to(offset.dtype), offset).float()
    whole = offset.floor()
    offset = (whole + (offset - whole).clamp(0.25, 0.75)).to(tensors[2].dtype)
    near = (offset - offset.round()).abs() < 0.02
    offset = torch.where(near, offset.round() + 0.5, offset)  # 16-bit numbers are far apart there
    leaves[2] = offset.requires_grad_()
    result = call(leaves, attributes)
    ran = myops.explain(gradients, leaves, result, grad)
    assert {step.kernel for step in ran.calls[0].plan} == {"cell_tables"}
    check([*tensors[:2], offset.detach(), *tensors[3:]], attributes, grad, ran.result, dtype)
    present = [t for t in leaves if t is not None]
    for together, leaf in zip(ran.result, present, strict=True):
        (alone,) = torch.autograd.grad(result, [leaf], grad, retain_graph=True)
        assert torch.equal(together, alone)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_cell_tables_in_bands(dtype: str) -> None:
    """Sums of 16-bit gradients of X for some rows at a time: 2 MiB and more for the image. Samples
    reach from one band into the other."""
    case = (1, 2, 1, (1, 1), (2, 2), (0, 0), (1, 1), 1, 1, False, False)
    tensors, attributes, leaves, result, grad = graph(case, (600, 500), dtype)
    got = gradients(leaves, result, grad)
    check(tensors, attributes, grad, got, dtype)
    for together, leaf in zip(got, [t for t in leaves if t is not None], strict=True):
        (alone,) = torch.autograd.grad(result, [leaf], grad, retain_graph=True)
        assert torch.equal(together, alone)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_image_in_bands(dtype: str) -> None:
    """The gradient of X alone is summed in bands: more pixels than a band of 16 channels has, tiles
    that touch two bands, and tiles that touch none. The bits are the same as those of whole
    images, which compute all gradients."""
    case = (1, 16, 3, (1, 2), (1, 1), (0, 0), (1, 1), 1, 1, True, False)
    tensors, attributes, leaves, result, grad = graph(case, (130, 130), dtype)
    offset = tensors[2].clone()
    offset[:, :, 60:] = -300  # outside of the image
    leaves[2] = offset.requires_grad_()
    result = call(leaves, attributes)
    ran = myops.explain(gradients, leaves, result, grad)
    assert {step.axis: step.kernel for step in ran.calls[0].plan} == {
        "X, offset and mask": "whole_images", "W": "with_data_gradient",
    }  # fmt: skip
    check([*tensors[:2], offset.detach(), *tensors[3:]], attributes, grad, ran.result, dtype)
    # A call in which only X requires a gradient.
    lone = [leaves[0], *[None if t is None else t.detach() for t in leaves[1:]]]
    alone = myops.explain(torch.autograd.grad, call(lone, attributes), [leaves[0]], grad)
    assert {step.axis: step.kernel for step in alone.calls[0].plan} == {"X": "image_in_bands"}
    assert torch.equal(alone.result[0], ran.result[0])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("channels", [57, 45, 34, 17])
def test_blocks_at_the_border_of_a_weight_group(channels: int, dtype: str) -> None:
    """Outputs that take several passes begin inside a block of channels, which is shorter then; the
    window of a tile must have room for what is read at once."""
    case = (1, 2 * channels, 178, (3, 3), (2, 2), (1, 1), (1, 1), 2, 1, True, True)
    torch.manual_seed(channels)
    tensors, attributes = build(case, (17, 240), dtype)
    tensors[2] = tensors[2] * 3
    exact = expected([t.double() for t in tensors], attributes)
    got = call(tensors, attributes)
    limit = 20 * TOLERANCES[dtype] * max(1.0, float(exact.abs().max()))
    assert (got.double() - exact).abs().max() <= limit


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 23, 33])
def test_layouts(channels: int, layout: torch.memory_format) -> None:
    """Images and results are transposed in groups of 16, 8, 4, 2 channels and one; lines are longer
    and shorter than a vector."""
    for width in (3, 16, 37):
        case = (1, channels, channels, (1, 2), (1, 1), (0, 1), (1, 1), 1, 1, True, False)
        for dtype in DTYPES:
            tensors, attributes, _, _, _ = graph(case, (5, width), dtype)
            leaves = [
                None if t is None else t.to(memory_format=layout).requires_grad_() for t in tensors
            ]
            result = call(leaves, attributes)
            grad = torch.randn(result.shape).to(result.dtype).contiguous(memory_format=layout)
            check(tensors, attributes, grad, gradients(leaves, result, grad), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("channels", [1, 2, 3, 5])
def test_taps_without_gaps(channels: int, dtype: str) -> None:
    """Few channels: a tap is written in whole vectors, over what the next tap overwrites. Infinity
    in the weights of one tap stays with its own positions."""
    case = (1, channels, 2, (3, 3), (1, 1), (1, 1), (1, 1), 1, 1, True, False)
    tensors, attributes, leaves, result, grad = graph(case, (7, 9), dtype)
    check(tensors, attributes, grad, gradients(leaves, result, grad), dtype)
    weight = tensors[1].clone()
    weight[0, 0, 1, 2] = torch.inf  # tap 5
    spoilt = [leaves[0], weight.requires_grad_(), *leaves[2:]]
    offsets = gradients(spoilt, call(spoilt, attributes), grad)[2]
    finite = offsets.isfinite().flatten(2).all(-1)[0]
    assert finite.tolist() == [tap not in (10, 11) for tap in range(18)]
    before = gradients(leaves, result, grad)[2]
    others = [tap for tap in range(18) if tap not in (10, 11)]
    assert torch.equal(offsets[:, others], before[:, others])


@pytest.mark.parametrize("groups", [2, 4, 8])
def test_shares_of_a_block(groups: int) -> None:
    """A block with channels of several weight groups."""
    case = (2, 8, 16, (3, 3), (1, 2), (0, 0), (2, 2), groups, 1, True, False)
    for dtype in DTYPES:
        tensors, attributes, leaves, result, grad = graph(case, (13, 12), dtype)
        check(tensors, attributes, grad, gradients(leaves, result, grad), dtype)


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 6, 7, 8, 15, 19, 33, 70])
def test_depthwise(channels: int) -> None:
    """Vectors of 16 channels, shorter ones, and those that are left; gradients too."""
    case = (1, channels, channels, (3, 2), (1, 1), (1, 0), (1, 1), channels, 1, True, True)
    for dtype in DTYPES:
        torch.manual_seed(channels)
        tensors, attributes = build(case, (6, 5), dtype)
        ran = myops.explain(call, tensors, attributes)
        name = next(step.kernel for step in ran.call.plan if step.axis == "Y")
        quad = 2 if dtype == "float64" else 4  # channels of 16 bytes
        if _numpy.instruction_set() in ("avx2", "avx512") and not GATHERS:
            few = channels <= 12 and channels % 8 != 0
        else:
            few = channels < 4 or (channels < 8 and (GATHERS or channels % quad != 0))
        assert name == ("planes_product" if few else "depthwise")
        exact = expected([t.double() for t in tensors], attributes)
        limit = TOLERANCES[dtype] * max(1.0, float(exact.abs().max()))
        assert (ran.result.double() - exact).abs().max() <= limit, dtype
        tensors, attributes, leaves, result, grad = graph((*case[:-1], False), (6, 5), dtype)
        check(tensors, attributes, grad, gradients(leaves, result, grad), dtype)


@pytest.mark.parametrize(
    ("kernel", "outputs"), [("packed_once", 9), ("packed_by_task", 640)]
)  # 640: 921,600 bytes of weights
def test_columns_product(kernel: str, outputs: int) -> None:
    case = (1, 40, outputs, (3, 3), (1, 1), (1, 1), (1, 1), 1, 2, False, True)
    for dtype in ("float32", "float16"):  # bfloat16: test_deform_conv2d_bfloat16.py
        torch.manual_seed(outputs)
        tensors, attributes = build(case, (5, 6), dtype)
        ran = myops.explain(call, tensors, attributes)
        assert {step.axis: step.kernel for step in ran.call.plan} == {
            "Y": "columns_product", "W": kernel,
        }  # fmt: skip
        exact = expected([None if t is None else t.double() for t in tensors], attributes)
        limit = TOLERANCES[dtype] * max(1.0, float(exact.abs().max()))
        assert (ran.result.double() - exact).abs().max() <= limit, dtype


@pytest.mark.parametrize("height", [1, 2, 3, 5, 8, 13, 20])
@pytest.mark.parametrize("channels", [2, 40])
def test_tiles_of_few_rows_are_as_large_as_others(channels: int, height: int) -> None:
    """A task for a few pixels would pack the weights and read a window of X for them alone."""
    image = torch.randn(1, channels, height, 2400 // height)
    offset = torch.zeros(1, 2 * 9, height, 2400 // height)
    weight = torch.randn(10, channels, 3, 3)
    ran = myops.explain(myops.deform_conv2d, image, offset, weight, padding=1)
    (pixels,) = re.findall(r"tiles of at most (\d+) pixels", str(ran))
    assert 150 <= int(pixels) <= 1024
