"""Every family of the conformance suite on ops with attributes of every kind; mistakes in
attributes are refused with the same text in every runtime."""

import json
import re

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from author_ops.attributes import adjust, every

import myops.onnx
import myops.ort
from myops.testing import Case, checks

VERSION = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])
needs_lists = pytest.mark.skipif(
    VERSION < (1, 25), reason="this ONNX Runtime passes no lists of strings to libraries"
)
torch.manual_seed(0)
THIRD = 1 / 3  # no float of 32 bits


def slow_adjust(
    x, steps, factor=THIRD, shifts=None, power=None, limit=None, bits=16, note=("plain",)
):
    y = x.double()
    for step in steps:
        y = y * factor if step == "scale" else -y if step == "negate" else y
        for shift in (shifts or []) if step == "shift" else []:
            y = y + shift
    if power is not None:
        y = y**power
    if limit is not None:
        y = y.clamp(-float(np.float32(limit)), float(np.float32(limit)))
    return ((y * 2.0**bits).round() / 2.0**bits).to(x.dtype)


X = torch.randn(3, 5) * 10
ADJUSTED = [
    Case((X,), {"steps": ["scale"]}, name="required"),
    Case((X,), {"steps": []}, name="nothing"),
    Case(
        (X,),
        {
            "steps": ["negate", "shift", "scale", "shift"], "factor": 0.1, "bits": 8,
            "shifts": [0.1, -1e-9, 1e3], "power": 2, "limit": 7.7, "note": ["a", "", "bé"],
        },
        name="all",
    ),
    Case((X,), {"steps": ["shift"], "shifts": [], "power": 0, "note": []}, name="empty"),
    Case((X,), {"steps": ["shift"], "shifts": None, "power": None, "limit": None}, name="None"),
    *[
        Case((X,), {"steps": ["scale"], **wrong}, name=name, refused=f"adjust: {text}")
        for name, wrong, text in [
            ("missing", {"steps": None},
             "steps: got nothing, expected a list of strings: the attribute is required"),
            ("a_step", {"steps": ["scale", "turn"]},
             'steps: got "turn", expected one of "scale", "shift", "negate"'),
            ("low", {"factor": 0.0}, "factor: got 0, expected a number above 0 and below 1000"),
            ("high", {"factor": 1000.0}, "factor: got 1000, expected a number above 0 and below"),
            ("nan", {"factor": float("nan")}, "factor: got nan, expected a number above 0 and"),
            ("power", {"power": 4}, "power: got 4, expected a number not below 0 and not above 3"),
            ("limit", {"limit": -1.0}, "limit: got -1, expected a number above 0"),
            ("bits", {"bits": 5}, "bits: got 5, expected one of 4, 8, 16"),
        ]
    ],
]  # fmt: skip
ROWS = [
    Case((torch.randn(2, 3, 11),), {"step": 3}, name="three"),
    Case((torch.randn(7),), {"step": 1}, name="all"),
    Case((X,), {}, name="missing",
         refused="every: step: got nothing, expected an int: the attribute is required"),
    Case((X,), {"step": 65}, name="high",
         refused="every: step: got 65, expected a number not below 1 and not above 64"),
    Case((X,), {"step": 0}, name="low",
         refused="every: step: got 0, expected a number not below 1 and not above 64"),
]  # fmt: skip
FOUND = [
    *checks(adjust, ADJUSTED, reference=slow_adjust, gradients=0),
    *checks(every, ROWS, reference=lambda x, step: x[..., ::step]),
]


@pytest.mark.parametrize("check", FOUND, ids=str)
def test_family(check):
    check()


WRONG = [case for case in ADJUSTED if case.refused]


@pytest.mark.parametrize("case", WRONG, ids=str)
def test_the_same_words_everywhere(case):
    given = {name: value for name, value in case.kwargs.items() if value is not None}
    with pytest.raises(ValueError, match=re.escape(case.refused)) as in_numpy:
        adjust.numpy(X.numpy(), **given)
    text = re.escape(str(in_numpy.value))
    with pytest.raises(RuntimeError, match=f"^{text}$"):
        adjust(X, **given)
    for backend in ("eager", "aot_eager"):
        torch.compiler.reset()
        with pytest.raises(Exception, match=text):
            torch.compile(lambda x: adjust(x, **given), backend=backend, fullgraph=True)(X)
    old = tuple(map(int, onnxruntime.__version__.split(".")[:2])) < (1, 25)  # no lists of strings
    said = "expected ONNX Runtime 1.25 or later" if old and "steps" in given else text
    with pytest.raises(Exception, match=said):
        myops.ort.session(model(given))
    with pytest.raises(ValueError, match=text):
        myops.ort.pyop_session(model(given)).run(None, {"x": X.numpy()})


def model(given):
    from myops.onnx.schema import attribute_proto

    info = onnx.helper.make_tensor_value_info
    node = onnx.helper.make_node("Adjust", ["x"], ["y"], domain="author_ops")
    for item in adjust.info.attributes:
        if item.name in given:
            node.attribute.append(attribute_proto(item, given[item.name]))
    kind = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph([node], "adjust", [info("x", kind, ["n", 5])],
                                   [info("y", kind, None)])  # fmt: skip
    opsets = [onnx.helper.make_opsetid("", 20), onnx.helper.make_opsetid("author_ops", 1)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9)


class Adjusting(torch.nn.Module):
    def __init__(self, given):
        super().__init__()
        self.given = given

    def forward(self, x):
        return adjust(x, **self.given)


@needs_lists
@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_no_bit_of_a_double_is_lost(exporter):
    given = {"steps": ["scale"], "factor": THIRD, "bits": 16}
    made = myops.onnx.export(Adjusting(given), (X.double(),), exporter=exporter, input_names=["x"])
    (node,) = [item for item in made.graph.node if item.op_type == "Adjust"]
    found = {item.name: item for item in node.attribute}
    assert list(found["steps"].strings) == [b"scale"]
    factor = onnx.numpy_helper.to_array(found["factor"].t)
    assert factor.dtype == np.float64
    assert factor.tolist() == THIRD  # the numbers of a result are rounded to 16 bits
    (y,) = myops.ort.session(made).run(None, {"x": X.double().numpy()})
    assert np.array_equal(y, slow_adjust(X.double(), **given).numpy())


@needs_lists
def test_one_function_for_nodes_that_differ():
    """Optional attributes that one node has and another has not, lists that are empty."""
    from myops.onnx.schema import attribute_proto

    settings = [case.kwargs for case in ADJUSTED if not case.refused]
    settings += [{"steps": ["scale"], "power": 3}, {"steps": ["scale"], "limit": 0.5},
                 {"steps": ["scale", "scale"]}, {"steps": ["scale"], "factor": 0.1}]  # fmt: skip
    whole = model(settings[0])
    first = whole.graph.node[0]
    for number, given in enumerate(settings[1:], 1):
        node = onnx.helper.make_node("Adjust", ["x"], [f"y_{number}"], domain="author_ops")
        node.attribute.extend(
            attribute_proto(item, given[item.name])
            for item in adjust.info.attributes
            if given.get(item.name) is not None
        )
        whole.graph.node.append(node)
        whole.graph.output.add(name=f"y_{number}").type.CopyFrom(whole.graph.output[0].type)
    assert first.op_type == "Adjust"

    plain = onnxruntime.InferenceSession(
        myops.onnx.add_function_bodies(whole).SerializeToString()
    ).run(None, {"x": X.numpy()})
    ours = myops.ort.session(whole).run(None, {"x": X.numpy()})
    for number, given in enumerate(settings):
        expected = slow_adjust(X, **given).numpy()
        np.testing.assert_allclose(plain[number], expected, atol=1e-6, err_msg=json.dumps(given))
        assert np.array_equal(ours[number], expected), given


# ---- An int that follows a length.


def halved(x):
    return every(x, step=x.shape[0])


def test_an_int_stays_symbolic_in_compiled_programs():
    from torch._dynamo.testing import CompileCounter

    counter = CompileCounter()
    torch.compiler.reset()
    compiled = torch.compile(halved, backend=counter, fullgraph=True, dynamic=True)
    for rows in (2, 3, 5, 7):
        x = torch.randn(rows, 23)
        assert torch.equal(compiled(x), x[:, ::rows])
    assert counter.frame_count == 1


def test_an_int_stays_symbolic_in_exported_programs():
    class Module(torch.nn.Module):
        def forward(self, x):
            return halved(x)

    rows = torch.export.Dim("rows", min=2, max=10)
    program = torch.export.export(
        Module(), (torch.randn(4, 23),), dynamic_shapes=({0: rows},)
    ).module()
    for length in (2, 3, 9):
        x = torch.randn(length, 23)
        assert torch.equal(program(x), x[:, ::length])


def test_out_of_bounds_at_run_time():
    """A trace cannot know it; the kernel refuses."""
    torch.compiler.reset()
    compiled = torch.compile(halved, backend="aot_eager", fullgraph=True, dynamic=True)
    assert compiled(torch.randn(3, 9)).shape == (3, 3)
    with pytest.raises(RuntimeError, match="every: step: got 65, expected a number not below 1"):
        compiled(torch.randn(65, 9))


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_exporters_refuse_an_int_that_follows_a_length(exporter):
    class Module(torch.nn.Module):
        def forward(self, x):
            return halved(x)

    with pytest.raises(Exception, match=r"every.*step.*an attribute of an ONNX node cannot change"):
        myops.onnx.export(
            Module(), (torch.randn(4, 23),), exporter=exporter, input_names=["x"],
            dynamic_axes={"x": [0]},
        )  # fmt: skip


def test_exporters_take_an_int_that_follows_a_fixed_length():
    class Module(torch.nn.Module):
        def forward(self, x):
            return halved(x)

    made = myops.onnx.export(
        Module(), (torch.randn(4, 23),), exporter="dynamo", input_names=["x"],
        dynamic_axes={"x": [1]},
    )  # fmt: skip
    x = np.random.default_rng(0).standard_normal((4, 31), np.float32)
    (y,) = myops.ort.session(made).run(None, {"x": x})
    assert np.array_equal(y, x[:, ::4])


# ---- TorchScript.


@needs_lists
def test_scripts_call_the_ops():
    def function(x):
        return every(adjust(x, steps=["scale", "shift"], shifts=[0.5], power=2), step=2)

    class Module(torch.nn.Module):
        def forward(self, x):
            return every(x, step=3)

    scripted = torch.jit.script(function)
    assert torch.equal(scripted(X), function(X))
    assert torch.equal(torch.jit.script(Module())(X), X[:, ::3])
    of_op = torch.jit.script(every)
    assert torch.equal(of_op(X, step=2), X[:, ::2])
    with pytest.raises(Exception, match="every: step: got nothing, expected an int"):
        of_op(X)
    made = myops.onnx.export(
        torch.jit.script(Adjusting2()), (X,), exporter="torchscript", input_names=["x"]
    )
    (y,) = myops.ort.session(made).run(None, {"x": X.numpy()})
    assert np.array_equal(y, Adjusting2()(X).numpy())


class Adjusting2(torch.nn.Module):
    def forward(self, x):
        return adjust(x, steps=["negate", "scale"], factor=0.1, shifts=[0.25])


def test_a_trace_has_no_lists_of_strings():
    with pytest.raises(RuntimeError, match=r"adjust: steps: got a list of strings in torch.jit.tr"):
        torch.jit.trace(lambda x: adjust(x, steps=["scale"]), (X,))
