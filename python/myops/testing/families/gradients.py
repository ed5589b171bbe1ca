"""Gradients: compared with finite differences, up to the order that the op promises, and run on
tensors without memory, at other lengths and in every dtype.

Differences are computed in float64, or, for an op without float64, in float32 with larger steps and
tolerances.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree

from myops.testing import casts, variations
from myops.testing.bits import given_of
from myops.testing.calls import refusal
from myops.testing.cases import Case
from myops.testing.derivatives import derive, leaves_of, total_of
from myops.testing.families import gradient_lengths, graphs
from myops.testing.op_under_test import DispatcherCalls, OpUnderTest, Seen
from myops.testing.trial import Trial

_MOST_ELEMENTS = 300  # for more, one random direction instead of the whole matrix
# The error of a difference with step h is about h^2 times the third derivative and u / h times the
# value. For u = 6e-8 it is smallest near h = 4e-3, where both terms are a few 1e-5.
_STEPS: dict[torch.dtype, dict[str, float]] = {
    torch.float64: {},
    torch.float32: {"eps": 5e-3, "atol": 2e-3, "rtol": 5e-3},
}
_CAUSE = {
    1: "backward is wrong, or returns None for an input that has a gradient. If the op has none on "
    "purpose: check_op(gradients=0)",
    2: "backward is not differentiable: it detaches, or its own op has no backward. If the op "
    "promises first derivatives only: check_op(gradients=1)",
}
_FAKE_CAUSE = (
    "an op that is called backwards lacks a fake kernel, or its shapes are wrong there; "
    "torch.compile of a training step fails on it"
)


def gradients(trial: Trial) -> None:
    """Runs gradcheck and gradgradcheck on the public function and on the torch op inside it."""
    tested, order = trial.tested, trial.settings.gradients
    places = trial.differentiable()
    if not places:
        trial.tally.note("no tensor of the case has a gradient")
        return
    if order == 0:
        _none_promised(trial, trial.case, places)
        return
    for dtype in _STEPS:
        case = casts.in_dtype(tested, trial.case, places, dtype)
        if variations.accepts(tested.function, case):
            break
    else:
        trial.tally.note("the op takes neither float64 nor float32: no differences were taken")
        _dtype(trial, places)
        gradient_lengths.vary(trial)
        return
    if dtype != torch.float64:
        trial.tally.note("the op does not take float64: differences were taken in float32")
    varied, leaves = leaves_of(case, places)
    outputs = _float_outputs(trial, varied)
    if not outputs:
        return
    if not any(_is_precise(item, dtype) for item in outputs):
        _dtype(trial, places)
        gradient_lengths.vary(trial)
        return
    with DispatcherCalls() as seen:
        tested.function(*case.args, **case.kwargs)
    inner = next(item for item in seen if tested.is_mine(item.overload))
    ways: dict[str, Callable[..., Any]] = {
        "the public function": _of_tensors(tested.function, varied, places),
        f"torch.ops.{tested.namespace}.{tested.name}": _below(tested, inner, case, places),
    }
    for who, function in ways.items():
        _check(trial, who, function, leaves, order)
    named = variations.by_name(tested.function, varied)
    if named is not None:
        by_name = _of_tensors(tested.function, named, places)
        _check(trial, "the public function with arguments by name", by_name, leaves, 1)
    _fake(trial, places)
    _dtype(trial, places)
    graphs.compare(trial, places)
    gradient_lengths.vary(trial)


def _of_tensors(function: Callable[..., Any], case: Case, places: list[int]) -> Callable[..., Any]:
    def call(*leaves: torch.Tensor) -> Any:
        tensors = case.tensors
        for place, leaf in zip(places, leaves, strict=True):
            tensors[place] = leaf
        varied = case.having(tensors)
        result = function(*varied.args, **varied.kwargs)
        if not isinstance(result, tuple):
            return result
        return _with_gradients(given_of(result), leaves[0].dtype)

    return call


def _below(tested: OpUnderTest, seen: Seen, case: Case, places: list[int]) -> Callable[..., Any]:
    """The dispatcher op, with the arguments that it got from the function, as a function of the
    leaves."""
    given = {id(tensor): place for place, tensor in enumerate(case.tensors)}

    def call(*leaves: torch.Tensor) -> Any:
        by_place = dict(zip(places, leaves, strict=True))
        args = pytree.tree_map(
            lambda item: by_place.get(given.get(id(item), -1), item), list(seen.args)
        )
        result = seen.overload(*args, **seen.kwargs)
        if not isinstance(result, tuple):
            return result
        wanted = tested.info.present(*seen.settled())  # empty tensors stand for the others
        items = [item for item, given in zip(result, wanted, strict=True) if given]
        return _with_gradients(items, leaves[0].dtype)

    return call


def _with_gradients(
    results: Iterable[torch.Tensor], dtype: torch.dtype
) -> tuple[torch.Tensor, ...]:
    """Leaves out integer outputs, because gradcheck uses a wrong output if one precedes others, and
    those that round away the differences in inputs of `dtype`, if others are left."""
    floats = [item for item in results if item.is_floating_point() or item.is_complex()]
    precise = [item for item in floats if _is_precise(item, dtype)]
    return tuple(precise or floats)


def _is_precise(output: torch.Tensor, dtype: torch.dtype) -> bool:
    """Whether the output shows what a small step of an input of `dtype` changes."""
    return torch.finfo(output.dtype).eps <= torch.finfo(dtype).eps


def _check(
    trial: Trial, who: str, function: Callable[..., Any], leaves: list[torch.Tensor], order: int
) -> None:
    small = sum(leaf.numel() for leaf in leaves) <= _MOST_ELEMENTS
    checks: dict[int, Callable[..., bool]] = {
        1: torch.autograd.gradcheck,
        2: torch.autograd.gradgradcheck,
    }
    for number in range(1, order + 1):
        try:
            # Second derivatives in one random direction, because the whole matrix takes minutes.
            fast = number == 2 or not small
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch's, of inputs that are not float64
                checks[number](
                    function, leaves, fast_mode=fast, **_STEPS[leaves[0].dtype.to_real()]
                )
        except Exception as error:  # of autograd or of a backward
            derivative = {1: "first derivatives", 2: "second derivatives"}[number]
            trial.tally.fail(
                "", f"{who}: {refusal(error)}", f"{derivative} that differences confirm",
                _CAUSE[number],
            )  # fmt: skip
            return
        trial.tally.ran += 1


def _none_promised(trial: Trial, case: Case, places: list[int]) -> None:
    """Checks that an op without gradients raises however it is called: without an error, training
    would have no effect."""
    tested = trial.tested
    with DispatcherCalls() as seen:
        tested.function(*case.args, **case.kwargs)
    inner = next(item for item in seen if tested.is_mine(item.overload))
    public = _of_tensors(tested.function, case, places)
    ways: dict[str, Callable[..., Any]] = {
        "the public function": public,
        f"torch.ops.{tested.namespace}.{tested.name}": _below(tested, inner, case, places),
        "torch.compile": torch.compile(public, backend="aot_eager"),
    }
    for who, function in ways.items():
        torch._dynamo.reset()
        leaves = [case.tensors[place].detach().clone().requires_grad_() for place in places]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch's, of a gradient that may be wrong
                torch.autograd.grad(total_of(function(*leaves)), leaves)
        except RuntimeError:
            trial.tally.ran += 1
            continue
        trial.tally.fail(
            "", f"{who}: a gradient", "an error: check_op was called with gradients=0",
            "the op has gradients after all, then check them with gradients=1 or 2; or it is "
            "registered with the dispatcher without a backward that raises",
        )  # fmt: skip


def _float_outputs(trial: Trial, case: Case) -> list[torch.Tensor]:
    """The float outputs of a call; integers have no gradient, and torch knows that."""
    result = trial.tested.function(*case.args, **case.kwargs)
    outputs = [item for item in pytree.tree_leaves(result) if isinstance(item, torch.Tensor)]
    floats = [item for item in outputs if item.is_floating_point() or item.is_complex()]
    if not floats:
        trial.tally.ran += 1
        if any(item.requires_grad for item in outputs):
            trial.tally.fail("", "integers that require a gradient", "none", _CAUSE[1])
    dtype = next(item.dtype for item in case.tensors if item.requires_grad)
    rounded = {str(item.dtype)[6:] for item in floats if not _is_precise(item, dtype)}
    if rounded:
        trial.tally.note(
            f"outputs in {' and '.join(sorted(rounded))} round more than {str(dtype)[6:]}: no "
            "differences of them were taken"
        )
    return floats


def backward_calls(trial: Trial, case: Case) -> list[Seen]:
    """The calls of other ops of the package that autograd makes, one for each op."""
    tested, places = trial.tested, trial.differentiable(case)
    outputs = pytree.tree_leaves(tested.function(*case.args, **case.kwargs))
    made = [item for item in outputs if isinstance(item, torch.Tensor)]
    if not places or not any(map(casts.is_float, made)):
        return []
    with DispatcherCalls() as seen:
        derive(tested, case, places, trial.settings.gradients)
    found = {
        item.name: item
        for item in seen
        if item.overload.namespace == tested.namespace and item.name != tested.name
    }
    return list(found.values())


def _fake(trial: Trial, places: list[int]) -> None:
    """Checks that derivatives on tensors without memory have the shapes and dtypes of the
    leaves."""
    mode = FakeTensorMode(shape_env=ShapeEnv())
    if variations.value_places(trial.tested, trial.case):
        trial.tally.note("numbers in a tensor decide the shape: derivatives were not run as fakes")
        return
    try:
        fakes = trial.case.having(
            [mode.from_tensor(item.detach(), static_shapes=True) for item in trial.case.tensors]
        )
        with mode:
            results = derive(trial.tested, fakes, places, trial.settings.gradients)
    except Exception as error:  # a missing fake kernel has no class of its own
        trial.tally.fail("on tensors without memory", refusal(error), "derivatives", _FAKE_CAUSE)
        return
    trial.tally.ran += 1
    tensors = trial.case.tensors
    for order, grads in enumerate(results, 1):
        for place, grad in zip(places, grads, strict=True):
            wanted = (tensors[place].shape, tensors[place].dtype)
            if (grad.shape, grad.dtype) != wanted:
                trial.tally.fail(
                    "on tensors without memory",
                    f"derivative {order} of {trial.case.labels()[place]}: {tuple(grad.shape)}, "
                    f"{grad.dtype}",
                    f"{tuple(wanted[0])}, {wanted[1]}",
                    _FAKE_CAUSE,
                )


def _dtype(trial: Trial, places: list[int]) -> None:
    """Checks that in the case's own dtype, too, gradients have the dtype and shape of their
    inputs."""
    try:
        results = derive(trial.tested, trial.case, places, trial.settings.gradients)
    except Exception as error:  # a kernel that float64 did not need
        trial.tally.fail("in the case's own dtype", refusal(error), "derivatives", _CAUSE[1])
        return
    tensors = trial.case.tensors
    trial.tally.ran += 1
    for grads in results:
        for place, grad in zip(places, grads, strict=True):
            if (grad.shape, grad.dtype) != (tensors[place].shape, tensors[place].dtype):
                trial.tally.fail(
                    "",
                    f"a gradient of shape {tuple(grad.shape)}, {grad.dtype}",
                    f"{tuple(tensors[place].shape)}, {tensors[place].dtype}",
                    _CAUSE[1],
                )
