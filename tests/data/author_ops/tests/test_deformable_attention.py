"""Multi-scale deformable attention against its formulation by grid_sample, in float64."""

import pytest
import torch
from author_ops import deformable_attention
from torch.nn.functional import grid_sample

from myops.testing import Case, checks

torch.manual_seed(0)


def slow(value, sizes, locations, weights):
    batch, _, heads, depth = value.shape
    queries, points = locations.shape[1], locations.shape[4]
    # A position that is not finite samples 0, as one outside does.
    finite = torch.isfinite(locations).all(-1, keepdim=True)
    grids = torch.where(finite & (locations.abs() < 1e6), 2 * locations - 1, 1e6)
    maps = value.split([int(h * w) for h, w in sizes.tolist()], 1)
    total = value.new_zeros(batch, heads * depth, queries)
    for level, (height, width) in enumerate(sizes.tolist()):
        if height * width == 0 or batch * heads * queries * points * depth == 0:
            continue
        image = maps[level].permute(0, 2, 3, 1).reshape(batch * heads, depth, height, width)
        grid = grids[:, :, :, level].transpose(1, 2).flatten(0, 1)
        sampled = grid_sample(image, grid.to(value.dtype), align_corners=False)
        weighted = sampled * weights[:, :, :, level].transpose(1, 2).flatten(0, 1)[:, None]
        total = total + weighted.sum(-1).view(batch, heads * depth, queries)
    return total.transpose(1, 2)


def case(sizes, batch=2, heads=3, depth=4, queries=5, points=2, **settings):
    positions = sum(h * w for h, w in sizes)
    levels = len(sizes)
    return Case(
        (
            torch.randn(batch, positions, heads, depth),
            torch.tensor(sizes, dtype=torch.int64).reshape(-1, 2),
            torch.rand(batch, queries, heads, levels, points, 2) * 1.2 - 0.1,
            torch.rand(batch, queries, heads, levels, points),
        ),
        **settings,
    )


def wrong(**changed):
    arguments = list(case([(2, 3), (4, 5)]).args)
    for place, item in changed.pop("args").items():
        arguments[place] = item
    return Case(tuple(arguments), **changed)


CASES = [
    case([(6, 5), (3, 2)], name="two_levels"),
    case([(7, 4)], batch=1, heads=2, depth=3, points=1, name="one_level"),
    wrong(args={1: torch.tensor([[2, 3], [4, 6]])}, refused="sizes: got 4 x 6 for level 1",
          refused_by_numbers=True, name="too_many_positions"),
    wrong(args={1: torch.tensor([[2, 3], [2, 5]])}, refused="sizes: got 16 positions",
          refused_by_numbers=True, name="too_few_positions"),
    wrong(args={1: torch.tensor([[2**62, 8], [4, 5]])}, refused="sizes: got 4611686018427387904",
          refused_by_numbers=True, name="overflow"),
    wrong(args={3: torch.rand(2, 5, 3, 2, 3)}, refused="weights: got shape [2, 5, 3, 2, 3]",
          name="weights"),
]  # fmt: skip
FOUND = checks(
    deformable_attention,
    CASES,
    reference=slow,
    gradients=1,
    skip={"bodies": "no standard form: GridSample takes one size"},
)


@pytest.mark.parametrize("check", FOUND, ids=str)
def test_family(check):
    check()


def test_gradient_is_that_of_the_formulation():
    value, sizes, locations, weights = CASES[0].args
    arguments = [item.double().requires_grad_() for item in (value, locations, weights)]
    grad = torch.randn(2, 5, 12, dtype=torch.float64)
    found = []
    for function in (deformable_attention, slow):
        result = function(arguments[0], sizes, *arguments[1:])
        found.append(torch.autograd.grad(result, arguments, grad))
    torch.testing.assert_close(*found)
