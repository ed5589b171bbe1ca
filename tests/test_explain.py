"""myops.explain: the calls that a function makes, as objects."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import numpy as np
import pytest
import torch

import myops
from myops import _libraries, _numpy_call, _recording


def plan(function: Any, *args: Any, **kwargs: Any) -> dict[str, str]:
    """{kernel: the axis or tensor that it computes}."""
    return {step.kernel: step.axis for step in myops.explain(function, *args, **kwargs).plan}


def test_the_result_is_returned() -> None:
    a = torch.arange(6.0).reshape(2, 3)
    found = myops.explain(myops.my_add, a, torch.ones(3))
    assert torch.equal(found.result, 2 * a + 1)
    assert found.op == "my_add"
    assert [item["name"] for item in found.inputs] == ["a", "b"]
    assert found.call.error == ""


def test_an_op_is_given_by_name() -> None:
    assert myops.explain("my_add", torch.ones(2), torch.ones(2)).op == "my_add"
    with pytest.raises(ValueError, match=r"explain: op: myops has no 'my_ad'\. Did you mean 'my_"):
        myops.explain("my_ad", torch.ones(2), torch.ones(2))


@pytest.mark.parametrize(
    ("a", "b", "kernel"),
    [
        ((4, 5), (4, 5), "contiguous"),
        ((4, 600), (600,), "contiguous"),
        ((4, 200), (200,), "contiguous"),
        ((4, 200), (4, 1), "repeated_b"),
        ((4, 1), (4, 200), "repeated_a"),
        ((4, 5), (5,), "packed"),
        ((20, 30), None, "tiles"),
    ],
)
def test_the_plan_of_my_add_names_its_loop(a: Any, b: Any, kernel: str) -> None:
    right = torch.ones(a[::-1]).t() if b is None else torch.ones(b)
    assert kernel in plan(myops.my_add, torch.ones(a), right)


def test_several_calls_or_none_are_recorded() -> None:
    x = torch.ones(1, 2, 4, 4, requires_grad=True)

    def both() -> None:
        myops.interpolate(x, scale_factor=2.0).sum().backward()

    found = myops.explain(both)
    assert [call.op for call in found.calls] == ["resize", "resize_backward"]
    with pytest.raises(ValueError, match=r"got 2 calls of ops \(resize, resize_backward\)"):
        _ = found.op
    nothing = myops.explain(torch.add, torch.ones(2), torch.ones(2))
    assert nothing.calls == []
    assert str(nothing) == "No call of an op of a myops library."


def test_calls_in_every_runtime_are_recorded() -> None:
    a = torch.ones(2)
    array = np.ones(2, np.float32)
    calls = {
        "torch fast call": lambda: myops.my_add(a, a),
        "torch": lambda: torch.ops.myops.my_add(a, a),
        "numpy": lambda: _numpy_call.call("my_add", [array, array]),
    }
    for runtime, call in calls.items():
        assert myops.explain(call).call.runtime == runtime


def test_pieces_threads_and_memory_are_recorded() -> None:
    x, offset = torch.randn(1, 8, 64, 64), torch.randn(1, 18, 64, 64)
    weight = torch.randn(8, 8, 3, 3)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        call = myops.explain(myops.deform_conv2d, x, offset, weight, padding=1).call
        torch.set_num_threads(1)
        alone = myops.explain(myops.deform_conv2d, x, offset, weight, padding=1).call
    finally:
        torch.set_num_threads(before)
    assert call.pieces == alone.pieces > 1  # independent of the number of threads
    assert 1 <= call.threads <= 2
    assert alone.threads == 1
    assert alone.memory > 4096
    assert {step.pieces for step in call.plan} == {call.pieces}
    assert max(step.memory for step in alone.plan) == alone.memory


def test_explanation_as_json_and_text() -> None:
    found = myops.explain(myops.my_add, torch.ones(3), torch.ones(1), out=torch.empty(3))
    plain = json.loads(found.to_json())
    assert plain["calls"][0]["plan"][0]["kernel"] == found.plan[0].kernel
    first, *rest = str(found).splitlines()
    assert first.startswith("my_add: a float32 3, b float32 1 -> c float32 3 [torch fast call, ")
    assert len(rest) == len(found.plan)


def test_an_error_is_raised_and_ends_the_recording() -> None:
    with pytest.raises(RuntimeError, match="length 3"):
        myops.explain(myops.my_add, torch.ones(2), torch.ones(3))
    assert myops.explain(myops.my_add, torch.ones(2), torch.ones(2)).op == "my_add"


def test_a_call_of_a_prototype_is_recorded() -> None:
    def slow(x: Any, *, limit: float) -> Any:
        time.sleep(0.02)
        if limit > 5:
            raise ValueError("too large")
        return limit * np.tanh(x / limit)

    clip = myops.prototype(
        slow,
        domain="explained",
        name="clip",
        types={"T": ["float32"]},
        inputs=[myops.Input("x", "T", "Any.")],
        outputs=[myops.Output("y", "T", "As x.")],
        attributes=[myops.Attribute("limit", 1.0, "Above 0.")],
        shape=lambda inputs, attributes: [inputs[0].shape],
    )
    call = myops.explain(clip, torch.ones(2), limit=2.0).call
    assert (call.op, call.domain, call.runtime) == ("clip", "myops", "numpy")
    assert [step.kernel for step in call.plan] == ["python"]
    assert call.ms >= 20
    with pytest.raises(RuntimeError, match="too large"):
        myops.explain(clip, torch.ones(2), limit=9.0)


def test_nested_recordings_are_refused() -> None:
    with pytest.raises(RuntimeError, match="explain: got a call while another one records"):
        myops.explain(myops.explain, myops.my_add, torch.ones(2), torch.ones(2))


def test_calls_in_other_threads_are_recorded() -> None:
    def on_a_thread() -> None:
        worker = threading.Thread(target=myops.my_add, args=(torch.ones(2), torch.ones(2)))
        worker.start()
        worker.join()

    assert myops.explain(on_a_thread).op == "my_add"


def test_calls_outside_are_not_recorded() -> None:
    with _recording.recorded() as calls:
        pass
    myops.my_add(torch.ones(2), torch.ones(2))
    sources = [item for each in _libraries.known() for item in _recording._sources(each)]
    assert calls == []
    assert len(sources) >= 2
    assert [source.end() for source in sources] == [""] * len(sources)
