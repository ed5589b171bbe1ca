"""The C++ shape rule where torch traces with symbolic lengths: `define` without `shape=`."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from myops._description import OPS, symbolic_rule


def symbolic(*shapes: tuple[int, ...]) -> list[torch.Tensor]:
    """Tensors of which torch knows no length: different numbers are different symbols."""
    mode = FakeTensorMode(shape_env=ShapeEnv())
    return [mode.from_tensor(torch.empty(shape)) for shape in shapes]


def test_lengths_are_passed_on() -> None:
    a, b = symbolic((5, 7), (7,))
    assert not isinstance(a.shape[0], int)
    (shape,) = symbolic_rule(OPS["my_add"])([a, b], {})
    assert list(map(str, shape)) == list(map(str, a.shape))  # the symbols, no new ones
    x, weight, offset = symbolic((2, 3, 9, 11), (4, 3, 3, 3), (2, 18, 7, 9))
    (shape,) = symbolic_rule(OPS["deform_conv2d"])([x, weight, offset, None, None], {})
    assert [str(length) for length in shape[:2]] == [str(x.shape[0]), str(weight.shape[0])]


@pytest.mark.parametrize(("sizes", "expected"), [([6, 8], [6, 8]), (None, [None, None])])
def test_numbers_in_lists(sizes: Any, expected: list[Any]) -> None:
    """Sizes are known; what scales make of unknown lengths is not."""
    (x,) = symbolic((2, 3, 5, 7))
    given = {"axes": [2, 3], "mode": "linear"}
    scales = None if sizes else [2.0, 2.0]
    (shape,) = symbolic_rule(OPS["resize"])([x, None, scales, sizes], given)
    assert shape[2:] == expected
    assert [str(length) for length in shape[:2]] == [str(length) for length in x.shape[:2]]


def test_it_refuses_as_eager_does() -> None:
    a, b = symbolic((5, 7), (7,))
    with pytest.raises(RuntimeError, match="my_add: b: got length 3 on axis 1, expected 1 or 4"):
        symbolic_rule(OPS["my_add"])([torch.ones(2, 4), torch.ones(3)], {})
    with pytest.raises(RuntimeError, match="grad: got rank 1"):
        symbolic_rule(OPS["deform_conv2d_backward"])([b, a, a, a, None], {})
