"""Lists of tensors, optional outputs, writes into an input, in every family and every runtime."""

import numpy as np
import onnx
import pytest
import torch
from author_ops import (
    blend,
    clamp_rows,
    clamp_rows_,
    clip,
    clip_,
    concat,
    library,
    momentum,
    momentum_,
    peak,
)

import myops
import myops.onnx
import myops.ort
from myops.testing import Case, checks

torch.manual_seed(0)
A, B, C = torch.randn(2, 3), torch.randn(4, 3), torch.randn(1, 3)
X, WEIGHT = torch.randn(4, 6), torch.rand(6)


def slow_peak(x, weight=None, return_index=False):
    column = torch.tensor(
        [next((i for i, v in enumerate(row) if v != v), row.index(max(row))) for row in x.tolist()],
        dtype=torch.int64,
    )
    largest = x[torch.arange(len(x)), column]
    return largest, column if return_index else None, None if weight is None else weight[column]


def slow_clip(x, limit=0.7):
    limit = float(np.float32(limit))
    changed = ((x > limit) | (x < -limit)).sum()
    return x.clamp(-limit, limit), changed


def slow_clamp_rows(x, top):
    top = top.reshape(-1, *[1] * (x.dim() - 1))
    return torch.where(x > top, top, x)


def slow_blend(weights, tensors):
    weights = [1] * len(tensors) if weights is None else weights
    return sum(weight * tensor for weight, tensor in zip(weights, tensors, strict=True))


def slow_momentum(parameter, speed, grad, rate=0.1, decay=0.9, return_step=False):
    speed = decay * speed + grad
    count = torch.tensor([parameter.numel()])
    return parameter - rate * speed, speed, count, rate * speed if return_step else None


BLEND = [
    Case((torch.rand(3), [X, X + 1, X * 2]), name="weights"),
    Case((None, [X, X + 1]), name="sum"),
    Case((torch.rand(3), [X, X]), refused="blend: weights: got shape [3], expected [2]"),
]
MOMENTUM = [
    Case((X, torch.ones(4, 6), X + 1), name="step"),
    Case((X, torch.ones(4, 5), X + 1), refused=": speed: got shape [4, 5], expected [S...]"),
    Case((X, torch.ones(4, 6), X + 1), {"return_step": True}, name="returned"),
]
CONCAT = [
    Case(([A, B, C],), name="three"),
    Case(([A],), name="one"),
    Case(([A, torch.randn(2, 2)],), {"axis": 1}, name="columns"),
    Case(([A, torch.randn(2, 2)],), refused="concat: tensors[1]: got shape [2, 2]", name="odd"),
    Case(([A, B.double()],), refused="concat: tensors[1]: got dtype float64", name="mixed"),
]
PEAK = [
    Case((X,), name="alone"),
    Case((X,), {"return_index": True}, name="index"),
    Case((X, WEIGHT), name="weight"),
    Case((X, WEIGHT), {"return_index": True}, name="all"),
    Case((X, WEIGHT[:5]), refused="peak: weight: got shape [5], expected [C] with C = 6"),
]
# In float64, 0.7 differs from the number that float32 has for it.
CLIP = [
    Case((X,), {"limit": 0.5}, name="half"),
    Case((X,), name="by default"),
    Case((X,), {"limit": 0.7}, name="the default, given"),
]
CLAMP_ROWS = [
    Case((X, torch.tensor([0.5, -1.0, 0.0, 9.0])), name="rows"),
    Case((X, WEIGHT), refused=": top: got shape [6], expected [R] with R = 4"),
]
FOUND = [
    *checks(concat, CONCAT, reference=lambda tensors, axis=0: torch.cat(tensors, axis)),
    *checks(blend, BLEND, reference=slow_blend),
    *checks(momentum, MOMENTUM, reference=slow_momentum, gradients=0),
    *checks(momentum_, MOMENTUM, reference=slow_momentum),
    *checks(peak, PEAK, reference=slow_peak),
    *checks(clip, CLIP, reference=slow_clip),
    *checks(clip_, CLIP, reference=slow_clip),
    *checks(clamp_rows, CLAMP_ROWS, reference=slow_clamp_rows, gradients=0),
    *checks(clamp_rows_, CLAMP_ROWS, reference=slow_clamp_rows),
]


@pytest.mark.parametrize("check", FOUND, ids=str)
def test_family(check):
    tensors = [tensor.clone() for tensor in (X, WEIGHT, A, B, C)]
    check()
    for tensor, before in zip((X, WEIGHT, A, B, C), tensors, strict=True):
        assert torch.equal(tensor, before)  # of the next check too


def test_an_empty_list_is_refused():
    """(torch.ops refuses it before the op is asked.)"""
    text = "concat: tensors: got an empty list, expected a list of at least one tensor"
    for call in (
        lambda: concat([]),
        lambda: myops._numpy_call.call(library.info("concat"), [[]]),
    ):
        with pytest.raises((RuntimeError, ValueError)) as caught:
            call()
        assert str(caught.value) == text


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_lists_of_several_lengths_in_one_model(tmp_path, exporter):
    class Model(torch.nn.Module):
        def forward(self, a, b):
            return concat([concat([a, b, a]), b])

    file = tmp_path / "model.onnx"
    with pytest.warns(myops.onnx.MissingBodyWarning, match="different numbers of inputs"):
        myops.onnx.export(Model(), (A, B), file, input_names=["a", "b"], exporter=exporter,
                          dynamic_axes={"a": {0: "n"}, "b": {0: "m"}})  # fmt: skip
    (result,) = myops.ort.session(file).run(None, {"a": B.numpy(), "b": A.numpy()})
    np.testing.assert_array_equal(result, Model()(B, A).numpy())
    lowered = myops.onnx.lower(onnx.load(file))
    assert [node.op_type for node in lowered.graph.node if node.op_type == "Concat"] == 2 * [
        "Concat"
    ]


def test_calls_that_leave_optional_inputs_out_are_fast():
    for call in (lambda: peak(X), lambda: peak(X, weight=WEIGHT), lambda: peak(X, WEIGHT)):
        assert myops.explain(call).calls[0].runtime == "torch fast call"
    assert torch.equal(peak(X, weight=WEIGHT)[2], peak(X, WEIGHT)[2])


def test_a_model_that_writes_is_exported_without_writes(tmp_path):
    class Model(torch.nn.Module):
        def forward(self, x):
            x = x + 1
            clip_(x)
            return x * 2

    model = myops.onnx.export(Model(), (X,), tmp_path / "model.onnx")
    assert "ClipCounting" in [node.op_type for node in model.graph.node]


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_outputs_that_are_left_out_are_not_in_the_file(tmp_path, exporter):
    class Model(torch.nn.Module):
        def forward(self, x):
            largest, index, at = peak(x)
            assert index is None
            assert at is None
            return largest

    model = myops.onnx.export(Model(), (X,), tmp_path / "model.onnx", exporter=exporter)
    (node,) = [node for node in model.graph.node if node.op_type == "Peak"]
    assert len(node.output) == 1


def node_of_peak(outputs, flag):
    named, written = ", ".join(filter(None, outputs)), ", ".join(name or "_" for name in outputs)
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 18, "author_ops" : 1]>'
        f"g (float[4, 6] x, float[6] w) => ({named})"
        f"{{ {written} = author_ops.Peak<return_index={flag}>(x, w) }}"
    )
    model.graph.node[0].output[:] = outputs
    return model


@pytest.mark.parametrize(
    ("outputs", "flag"),
    [(["largest"], 1), (["largest", "", "at"], 1), (["largest", "index"], 0),
     (["largest", "index", "at"], 1)],
)  # fmt: skip
def test_a_node_may_leave_out_what_it_does_not_need(outputs, flag):
    session = myops.ort.session(node_of_peak(outputs, flag))
    results = session.run(None, {"x": X.numpy(), "w": WEIGHT.numpy()})
    expected = dict(
        zip(["largest", "index", "at"], peak(X, WEIGHT, return_index=True), strict=True)
    )
    for name, result in zip([name for name in outputs if name], results, strict=True):
        if name == "index" and not flag:
            assert result.shape == (0,)  # nothing was computed
        else:
            np.testing.assert_array_equal(result, expected[name].numpy())


def test_a_write_that_is_seen_twice_is_refused():
    both = library.info("clip_")
    assert both.writes
    assert not both.onnx_type
    row = torch.zeros(3).expand(2, 3)
    with pytest.raises(RuntimeError, match="clip_: x: got one place in memory for the elements"):
        clip_(row)
    array = np.lib.stride_tricks.as_strided(np.zeros(3, np.float32), (2, 3), (0, 4))
    with pytest.raises(ValueError, match="clip_: x: got one place in memory for several"):
        myops._numpy_call.call(both, [array])
    with pytest.raises(ValueError, match="clip_: x: got list, expected an array to write into"):
        myops._numpy_call.call(both, [[1.0, 2.0]])
    array = np.zeros(3, np.float32)
    array.flags.writeable = False
    with pytest.raises(ValueError, match="clip_: x: got an array that is read-only"):
        myops._numpy_call.call(both, [array])


@pytest.mark.parametrize(
    ("op", "others", "attributes", "results"),
    [
        (clamp_rows_, [WEIGHT[:4]], {}, 0),
        (clip_, [], {"limit": 0.5}, 1),
        (momentum_, [torch.ones(4, 6), X + 1], {}, 2),
    ],
)
def test_numpy_writes_into_its_arrays(op, others, attributes, results):
    """With no output, one, and several, of which some may be left out."""
    tensors = [X.clone(), *(other.clone() for other in others)]
    arrays = [tensor.numpy().copy() for tensor in tensors]
    made, given = op(*tensors, **attributes), op.numpy(*arrays, **attributes)
    for array, tensor in zip(arrays, tensors, strict=True):
        np.testing.assert_array_equal(array, tensor.numpy())
    assert not np.array_equal(arrays[0], X.numpy())
    if results < 2:
        made, given = [made][:results], [given] if results else given
    if not results:
        assert given is None
        return
    assert len(given) == results
    for array, tensor in zip(given, made, strict=True):
        assert (array is None) == (tensor is None)
        assert tensor is None or np.array_equal(array, tensor.numpy())


@pytest.mark.parametrize("function", [momentum_, torch.ops.author_ops.momentum_])
def test_a_batch_is_refused(function):
    batch = [torch.ones(2, 3) for _ in range(3)]
    text = "momentum_: parameter: got a batch of torch.func.vmap, .* call momentum, which writes"
    with pytest.raises(RuntimeError, match=text):
        torch.vmap(function)(*batch)
    torch.vmap(lambda *tensors: momentum(*tensors)[:2])(*batch)  # the third is left out


def test_memory_that_the_op_writes_and_reads_is_refused():
    """Also where the kernel would get copies of it, because of the layout."""
    text = "momentum_: parameter: got memory that it shares with speed, expected memory of its own"
    both, grad = torch.zeros(4, 3), torch.ones(3, 4)
    info = library.info("momentum_")
    for shared in (both.T, both.reshape(3, 4)):
        with pytest.raises(RuntimeError) as caught:
            momentum_(shared, shared, grad)
        assert str(caught.value) == text
        with pytest.raises(ValueError, match="shares with speed") as caught:
            myops._numpy_call.call(info, [shared.numpy(), shared.numpy(), grad.numpy()])
        assert str(caught.value) == text
    columns = torch.zeros(3, 2)
    momentum_(columns[:, 0], columns[:, 1], torch.ones(3))  # one beside the other
    np.testing.assert_allclose(columns.numpy(), [[-0.1, 1]] * 3, rtol=1e-6)
    state = np.zeros((3, 2), np.float32)
    myops._numpy_call.call(info, [state[:, 0], state[:, 1], np.ones(3, np.float32)])
    np.testing.assert_array_equal(state, columns.numpy())
