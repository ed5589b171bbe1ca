"""Arguments of ops by position and by name, for what `library.define` returns and for prototypes:
the same values, gradients, and refusals."""

from __future__ import annotations

import inspect
import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import myops
from myops import _libraries
from myops.ops.resize import _resize

_SETTINGS = {"types": {"T": ["float32", "float64"]},
             "outputs": [myops.Output("y", "T", ".")], "shape": "S... -> S..."}  # fmt: skip
_DOMAIN = "call_arguments"


def _made(name: str, function: Callable[..., Any], **settings: Any) -> tuple[Any, Any]:
    """The function that callers of a prototype have, and what `library.define` returned."""
    inputs = settings.pop("inputs", [myops.Input("x", "T", ".")])
    given: dict[str, Any] = {**_SETTINGS, "inputs": inputs, **settings}
    public = myops.prototype(function, name=name, domain=_DOMAIN, **given)
    return public, _libraries.of_prototypes(_DOMAIN, _DOMAIN).made(name)


seen: list[dict[str, Any]] = []


def _save(ctx: Any, inputs: Any, attributes: dict[str, Any], output: Any) -> None:
    seen.append(attributes)
    ctx.factor = attributes["factor"]


def _scaled(x: np.ndarray, weight: np.ndarray | None, *, factor: float, **_: Any) -> np.ndarray:
    return x * factor if weight is None else x * weight * factor


SCALED = _made(
    "scaled", _scaled, inputs=[myops.Input("x", "T", "."),
                               myops.Input("weight", "T", ".", optional=True)],
    attributes=[myops.Attribute("factor", 2.0, "."),
                myops.Attribute("limit", 0.0, ".", optional=True),
                myops.Attribute("words", [], ".", type="strings")],
    shape=lambda inputs, attributes: [inputs[0].shape],
    save=_save, backward=lambda ctx, grad: (grad * ctx.factor, None),
)  # fmt: skip


def _noisy(x: np.ndarray, *, seed: int, scale: float) -> np.ndarray:
    return x + scale * myops.Philox(seed).uniform(x.size).astype(x.dtype)


NOISY = _made(
    "noisy", _noisy,
    attributes=[myops.Attribute("scale", 1.0, ".")], random=True,
)  # fmt: skip
WORDS = _made(
    "words", lambda x, *, words: x * len(words), attributes=[myops.Attribute("words", ["a"], ".")]
)
SUM = _made("sum", lambda tensors: sum(tensors[1:], tensors[0]), shape=lambda i, a: [i[0][0].shape],
            inputs=[myops.Input("tensors", "T", ".", variadic=True)])  # fmt: skip


@pytest.mark.parametrize("op", SCALED, ids=["prototype", "define"])
def test_inputs_by_name_have_gradients(op: Any) -> None:
    x = torch.rand(3, requires_grad=True)
    weight = torch.ones(3)
    for result in (op(x, weight), op(x, weight=weight), op(weight=weight, x=x)):
        (gradient,) = torch.autograd.grad(result.sum(), x)
        assert gradient.tolist() == [2, 2, 2]
    assert torch.func.grad(lambda value: op(x=value).sum())(x.detach()).tolist() == [2, 2, 2]
    assert torch.equal(torch.func.vmap(lambda v: op(x=v))(x.detach()[None])[0], 2 * x.detach())
    compiled = torch.compile(lambda v: op(x=v, factor=3.0), fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x), op(x, None, 3.0))


def test_our_ops_by_name_have_gradients() -> None:
    x = torch.rand(1, 1, 4, 4, requires_grad=True)
    assert _resize(scales=[1.0, 1.0, 2.0, 2.0], X=x).requires_grad
    named = _resize(X=x, scales=[1.0, 1.0, 2.0, 2.0], mode="linear")
    assert torch.equal(named, _resize(x, None, [1.0, 1.0, 2.0, 2.0], None, mode="linear"))


@pytest.mark.parametrize("op", SCALED, ids=["prototype", "define"])
def test_attributes_by_position(op: Any) -> None:
    x = torch.rand(3)
    assert torch.equal(op(x, None, 3.0), op(x, factor=3.0))
    assert np.array_equal(op.numpy(x.numpy(), None, 3.0), op.numpy(factor=3.0, x=x.numpy()))


@pytest.mark.parametrize(
    ("arguments", "named", "text"),
    [
        ((1, 2, 3, 4, 5, 6), {}, "got 6 arguments by position, expected 5 at most"),
        ((torch.ones(2),), {"x": torch.ones(2)}, "x: got two values, one by position and one by"),
    ],
)
def test_mistakes(arguments: Any, named: Any, text: str) -> None:
    op = SCALED[1]
    with pytest.raises(TypeError, match=text):
        op(*arguments, **named)
    with pytest.raises(TypeError, match=text):
        op.numpy(*arguments, **named)


@pytest.mark.parametrize("make", [
    lambda op: op, lambda op: torch.ops.call_arguments.scaled,
    lambda op: torch.compile(op, backend="aot_eager"), torch.jit.script,
], ids=["op", "torch.ops", "compile", "script"])  # fmt: skip
def test_save_gets_every_attribute(make: Callable[..., Any]) -> None:
    seen.clear()
    make(SCALED[0])(torch.rand(3, requires_grad=True))
    assert seen[-1] == {"factor": 2.0, "limit": None, "words": []}


@pytest.mark.parametrize("op", NOISY, ids=["prototype", "define"])
def test_keys_by_name(op: Any) -> None:
    x, key = torch.zeros(3), torch.tensor([5])
    expected = op(x, seed=5)
    assert torch.equal(op(x, key=key), expected)
    assert torch.equal(op(x=x, key=key), expected)
    assert torch.equal(op(x, 2.0, seed=5), 2 * expected)
    assert torch.equal(torch.compile(lambda v, k: op(v, key=k), backend="eager")(x, key), expected)


@pytest.mark.parametrize("op", NOISY, ids=["prototype", "define"])
def test_scripts_draw_new_numbers(op: Any) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return op(x)

    scripted = torch.jit.script(program)
    torch.manual_seed(1)
    first, second = scripted(torch.zeros(4)), scripted(torch.zeros(4))
    assert not torch.equal(first, second)
    torch.manual_seed(1)
    assert torch.equal(scripted(torch.zeros(4)), first)


@pytest.mark.parametrize("op", WORDS, ids=["prototype", "define"])
def test_lists_of_strings(op: Any) -> None:
    x = torch.ones(2)
    for call in (op, lambda v, **named: op.numpy(v.numpy(), **named)):
        with pytest.raises((RuntimeError, ValueError), match="words: got 'left', expected strings"):
            call(x, words="left")
    traced = torch.jit.trace(lambda v: op(v), x)  # the default is no list in the trace
    assert torch.equal(traced(x), x)
    with pytest.raises(RuntimeError, match="got a list of strings in torch"):
        torch.jit.trace(lambda v: op(v, words=["b"]), x)


@pytest.mark.parametrize("op", SUM, ids=["prototype", "define"])
def test_lists_of_tensors(op: Any) -> None:
    x = torch.ones(2)
    assert torch.equal(op(tensors=[x, x]), 2 * x)
    with pytest.raises(RuntimeError, match="tensors: got an empty list, expected a list of at"):
        op([])
    for wrong in ((t for t in [x, x]), x):
        with pytest.raises(TypeError, match=r"tensors: got (generator|Tensor), expected a list of"):
            op(wrong)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"factor": "a"}, "factor: got 'a', expected float"),
        ({"words": [1]}, r"words: got \[1\], expected strings"),
        ({"wrong": 1}, "attributes: got 'wrong', expected one of 'factor', 'limit', 'words'"),
    ],
)
def test_attributes_of_other_kinds(settings: dict[str, Any], text: str) -> None:
    with pytest.raises((RuntimeError, TypeError), match=f"scaled: {text}"):
        SCALED[1](torch.rand(3), **settings)


def test_an_op_shows_what_it_is() -> None:
    op = SCALED[1]
    assert str(inspect.signature(op)) == "(x, weight=None, factor=2.0, limit=None, words=[])"
    assert str(inspect.signature(_resize)).endswith(", *, out=None)")  # in C++, with one output
    assert (repr(op), op.__name__) == ("<myops op call_arguments::scaled>", "scaled")
    assert pickle.loads(pickle.dumps(_resize)) is _resize


def test_a_flag_that_follows_a_length() -> None:
    flagged, _ = _made(
        "flagged", lambda x, *, twice: x * (2 if twice else 1),
        attributes=[myops.Attribute("twice", False, ".")],
    )  # fmt: skip
    program = torch.compile(
        lambda x: flagged(x, twice=x.shape[0] > 3), dynamic=True, fullgraph=True, backend="eager"
    )
    assert program(torch.ones(5)).tolist() == [2] * 5
    assert program(torch.ones(2)).tolist() == [1] * 2


def _weighted(x: Any, weight: Any, offset: Any) -> Any:
    return x + offset if weight is None else x * weight + offset


BEHIND = _made(
    "behind", lambda x, weight, offset, *, scale: _weighted(x, weight, offset) * scale,
    inputs=[myops.Input("x", "T", "."), myops.Input("weight", "T", ".", optional=True),
            myops.Input("offset", "T", ".")],
    attributes=[myops.Attribute("scale", 1.0, ".")], shape="S, S, S -> S",
)  # fmt: skip


def test_a_required_input_behind_an_optional_one() -> None:
    """It is given by name if the call leaves out the optional one."""
    inputs = [myops.Input("x", "T", "."), myops.Input("weight", "T", ".", optional=True),
              myops.Input("offset", "T", ".")]  # fmt: skip
    op = myops.prototype(
        _weighted, domain=_DOMAIN, name="weighted", types={"T": ["float32"]}, inputs=inputs,
        outputs=[myops.Output("y", "T", ".")], shape="S, S, S -> S",
    )  # fmt: skip
    x = torch.ones(3)

    def calls(x: torch.Tensor) -> torch.Tensor:
        return op(x, offset=x) + op(x, None, x) + op(x, x, x)

    for program in (calls, torch.jit.script(calls),
                    torch.compile(calls, fullgraph=True, backend="eager")):  # fmt: skip
        assert program(x).tolist() == [6, 6, 6]
    assert op.numpy(x.numpy(), offset=x.numpy()).tolist() == [2, 2, 2]

    def without(x: torch.Tensor) -> torch.Tensor:
        return op(x, x)

    for program in (op, without, torch.jit.script(without)):
        with pytest.raises((RuntimeError, torch.jit.Error), match="weighted: offset: got nothing"):
            program(x)


@pytest.mark.parametrize("op", BEHIND, ids=["prototype", "define"])
def test_a_refusal_names_the_input_that_is_missing(op: Any) -> None:
    """And not the optional one before it, which torch names."""
    x = torch.ones(3)
    calls: list[Callable[[], Any]] = [
        lambda: op(x), lambda: op(x, weight=x), lambda: op(x.requires_grad_()), lambda: op(x, x)
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(RuntimeError, match="behind: offset: got nothing, expected a tensor"):
            call()
    with pytest.raises(RuntimeError, match="behind: x: got nothing, expected a tensor"):
        op(None, None, None)
    with pytest.raises(RuntimeError, match="behind: x: got nothing, expected a tensor"):
        BEHIND[1]()
    compiled = torch.compile(lambda x: op(x), fullgraph=True, backend="eager")
    with pytest.raises(Exception, match="behind: offset: got nothing, expected a tensor"):
        compiled(torch.ones(3))


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"scale": None}, "scale: got None, expected float"),
        ({"wieght": 1}, "attributes: got 'wieght', expected one of 'scale'. Did you mean 'weight'"),
    ],
)
def test_none_for_an_attribute_and_a_misspelt_input(settings: dict[str, Any], text: str) -> None:
    x = torch.ones(3)
    for given in (x, x.clone().requires_grad_()):
        with pytest.raises((RuntimeError, TypeError), match=f"behind: {re.escape(text)}"):
            BEHIND[1](given, offset=given, **settings)


@pytest.mark.parametrize("op", BEHIND, ids=["prototype", "define"])
def test_misspelt_names_with_arrays(op: Any) -> None:
    x = np.ones(3, np.float32)
    for name, near in (("wieght", ". Did you mean 'weight'?"), ("scael", ". Did you mean 'scale'?"),
                       ("zzz", "")):  # fmt: skip
        text = f"behind: {name}: got an attribute of this name, expected one of [scale]{near}"
        with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
            op.numpy(x, offset=x, **{name: x})


def test_a_key_that_is_no_tensor() -> None:
    text = r"noisy: key: got 5, expected a tensor of one int64; seed= takes an integer"
    with pytest.raises(TypeError, match=text):
        NOISY[0](torch.ones(3), key=5)
    with pytest.raises(RuntimeError, match=r"key: got shape \[\], expected shape \[1\] \(one num"):
        NOISY[0](torch.ones(3), key=torch.tensor(5))
