"""Model files whose parts contradict each other: a function works, or says what is wrong.

Every attribute of every op gets every other kind, every weight an element type that ONNX lacks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, TensorProto, helper, numpy_helper
from surgery_models import FLOAT, info, model_of

import myops.onnx
import myops.ort
from myops import _description

FUNCTIONS: dict[str, Callable[[onnx.ModelProto], Any]] = {
    "lower": myops.onnx.lower,
    "upgrade_ops": myops.onnx.upgrade_ops,
    "add_function_bodies": myops.onnx.add_function_bodies,
    "inspect": lambda model: myops.onnx.inspect(model).as_dict(),
    "diff": lambda model: myops.onnx.diff(model, BASE),
    "edit": lambda model: myops.onnx.edit(model, rename_nodes={}),
}
# What Python says of a mistake in its own terms.
OF_PYTHON = re.compile(r"zip\(|codec|not iterable|object has no|NoneType|subscript|list index")


def weights(**arrays: Any) -> list[TensorProto]:
    return [numpy_helper.from_array(np.asarray(value), name) for name, value in arrays.items()]


def deform_inputs(kind: Any) -> list[TensorProto]:
    return weights(
        W=np.ones((2, 2, 3, 3), kind), offset=np.zeros((1, 18, 2, 2), np.float32),
        B=np.zeros(2, np.float32), mask=np.ones((1, 9, 2, 2), np.float32),
    )  # fmt: skip


def model(op: str, domain: str, inputs: str, constants: list[TensorProto], **more: Any) -> Any:
    names = ["" if name == "-" else name for name in inputs.split()]
    node = helper.make_node(op, names, ["Y"], "n", domain=domain, **more)
    kind = TensorProto.UINT8 if "Integer" in op else FLOAT
    domains = [domain] if domain else []
    return model_of([node], [info("X", kind, [1, 2, 4, 4])], [info("Y", FLOAT, None)], constants,
                    domains=domains, opset=19)  # fmt: skip


SCALES = weights(scales=np.float32([1, 1, 2, 2]))
BASE = model("MyAdd", "myops", "X b", weights(b=np.float32([2])))
INTEGERS = weights(s=np.float32([0.5]), z=np.uint8([3]), w=np.ones(2, np.float32))
BASE_10 = model("Resize", "", "X scales", SCALES, mode="linear")
BASE_10.opset_import[0].version = 10
MODELS = {
    "MyAdd": BASE,
    "Resize": model("Resize", "myops", "X - scales", SCALES, mode="linear"),
    "DeformConv": model("DeformConv", "myops", "X W offset B mask", deform_inputs(np.float32)),
    "DeformConvIntegerToFloat": model(
        "DeformConvIntegerToFloat", "myops", "X s z W w offset B mask",
        deform_inputs(np.int8) + INTEGERS,
    ),
    "standard Resize": model("Resize", "", "X - scales", SCALES, mode="linear"),
    "standard Resize of opset 10": BASE_10,
    "standard DeformConv": model("DeformConv", "", "X W offset B mask", deform_inputs(np.float32)),
}  # fmt: skip


def attributes_of(name: str) -> list[str]:
    if name.startswith("standard"):
        return list(onnx.defs.get_schema(name.split()[1], 19, "").attributes)
    (described,) = [item for item in _description.onnx_ops() if item.onnx_type == name]
    return [item.name for item in described.attributes]


def every_kind(name: str) -> Iterator[AttributeProto]:
    """An attribute of each kind without a value, and one with values of all kinds."""
    tensor = helper.make_tensor("t", TensorProto.INT64, [2], [1, 1])
    sparse = helper.make_sparse_tensor(tensor, tensor, [4])
    graph = helper.make_graph([helper.make_node("Identity", ["X"], ["z"])], "g", [],
                              [info("z", FLOAT, None)])  # fmt: skip
    kind = helper.make_tensor_type_proto(FLOAT, [2])
    full = AttributeProto(
        f=1.5, i=7, s=b"\xff", t=tensor, g=graph, sparse_tensor=sparse, tp=kind, floats=[1.5],
        ints=[7], strings=[b"\xff"], tensors=[tensor], graphs=[graph], sparse_tensors=[sparse],
        type_protos=[kind],
    )  # fmt: skip
    for values in (AttributeProto(), full):
        for number in AttributeProto.AttributeType.values():
            values.name, values.type = name, number
            yield values


def said_of(function: Callable[[onnx.ModelProto], Any], given: onnx.ModelProto) -> str:
    """What a function says of a model that it refuses; "" if it works."""
    try:
        function(given)
    except (ValueError, RuntimeError) as error:
        said = str(error)
        assert not OF_PYTHON.search(said), said
        return said
    return ""


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(
    ("name", "attribute"), [(name, item) for name in MODELS for item in attributes_of(name)]
)
def test_attributes_of_every_kind(name: str, attribute: str, function: str) -> None:
    for wrong in every_kind(attribute):
        given = onnx.ModelProto.FromString(MODELS[name].SerializeToString())
        node = given.graph.node[0]
        kept = [item for item in node.attribute if item.name != attribute]
        del node.attribute[:]
        node.attribute.extend([*kept, wrong])
        said = said_of(FUNCTIONS[function], given)
        if function == "lower" and said and not name.startswith("standard"):
            assert re.match(r"node 'n' \(myops::|" + _description_name(name), said), said


def _description_name(name: str) -> str:
    return next(item.name for item in _description.onnx_ops() if item.onnx_type == name)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("damage", ["type", "dims", "data", "negative", "string"])
def test_damaged_weights(name: str, function: str, damage: str) -> None:
    for place in range(len(MODELS[name].graph.initializer)):
        given = onnx.ModelProto.FromString(MODELS[name].SerializeToString())
        tensor = given.graph.initializer[place]
        if damage == "type":
            tensor.data_type = 77
        elif damage == "dims":
            tensor.dims[:] = [3, 5]
        elif damage == "data":
            tensor.raw_data = b"\0"
        elif damage == "negative":
            tensor.dims[:] = [-2]
        else:
            tensor.data_type = TensorProto.STRING
        said_of(FUNCTIONS[function], given)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("name", MODELS)
def test_other_numbers_of_inputs_and_outputs(name: str, function: str) -> None:
    for what in ("input", "output"):
        for count in range(12):
            given = onnx.ModelProto.FromString(MODELS[name].SerializeToString())
            names = getattr(given.graph.node[0], what)
            more = [f"Z{number}" if what == "output" else "X" for number in range(count)]
            names[:] = [*names, *more][:count]
            said_of(FUNCTIONS[function], given)


def test_errors_name_the_node_and_the_attribute() -> None:
    given = onnx.ModelProto.FromString(MODELS["Resize"].SerializeToString())
    node = given.graph.node[0]
    node.attribute.append(helper.make_attribute("axes", SCALES[0]))
    with pytest.raises(ValueError, match=r"^node 'n' \(myops::Resize\): axes: got a tensor, expec"):
        myops.onnx.lower(given)
    node.name = ""
    with pytest.raises(ValueError, match=r"^node 'Y' \(myops::Resize\): axes: got a tensor, expec"):
        myops.onnx.upgrade_ops(given)
    del node.attribute[:]
    node.attribute.append(helper.make_attribute("mode", b"\xff"))
    with pytest.raises(ValueError, match=r"\): mode: got bytes that are no UTF-8, expected a str"):
        myops.onnx.lower(given)
    del node.attribute[:]
    node.output.append("Z")
    with pytest.raises(ValueError, match=r"\): got 2 outputs, expected 1 at most"):
        myops.onnx.lower(given)


TEXTS: dict[str, Callable[[onnx.ModelProto], Any]] = {
    "node: name": lambda m: m.graph.node[0].name,
    "node: op_type": lambda m: m.graph.node[0].op_type,
    "node: domain": lambda m: m.graph.node[0].domain,
    "node: name of an input or output": lambda m: m.graph.node[0].input[0],
    "attribute: name": lambda m: m.graph.node[0].attribute[0].name,
    "graph: name of a value": lambda m: m.graph.output[0].name,
    "graph: name of a length": lambda m: m.graph.input[0].type.tensor_type.shape.dim[0].dim_param,
    "tensor: name": lambda m: m.graph.initializer[0].name,
    "tensor: external_data": lambda m: m.graph.initializer[0].external_data[0].value,
    "opset_import: domain": lambda m: m.opset_import[1].domain,
    "metadata: key": lambda m: m.metadata_props[0].key,
    "metadata: value": lambda m: m.metadata_props[0].value,
    "function: name": lambda m: m.functions[0].name,
    "model: producer_name": lambda m: m.producer_name,
}


@pytest.mark.parametrize("what", TEXTS)
def test_names_that_are_no_utf8_are_refused_when_a_model_is_read(what: str) -> None:
    given = onnx.ModelProto.FromString(MODELS["Resize"].SerializeToString())
    body = helper.make_function("d", "F0", ["a"], ["b"], [helper.make_node("Neg", ["a"], ["b"])],
                                [helper.make_opsetid("", 19)])  # fmt: skip
    given.functions.append(body)
    given.producer_name = "maker0"
    given.metadata_props.add(key="key0", value="value0")
    given.graph.initializer[0].external_data.add(key="location", value="file0")
    given.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch0"
    text = TEXTS[what](given)
    assert text
    data = given.SerializeToString()
    onnx.ModelProto.FromString(data)
    field = bytes([len(text)]) + text.encode()
    damaged = data.replace(field, field[:-1] + b"\xd9")
    assert damaged != data
    for function in (myops.onnx.lower, myops.onnx.inspect, lambda m: myops.onnx.diff(m, BASE)):
        with pytest.raises(ValueError, match=r": got b'[^']*\\xd9', expected UTF-8") as caught:
            function(damaged)
    elsewhere = ("node: domain", "node: name of an input", "opset", "graph")  # it is there too
    assert str(caught.value).startswith(what) or what.startswith(elsewhere)
    (finding,) = myops.ort.doctor(damaged, run=False).errors
    assert finding.code == "model-broken"


@pytest.mark.parametrize("wrong", ["mode", "type", "outputs", "text"])
def test_doctor(wrong: str) -> None:
    given = onnx.ModelProto.FromString(MODELS["Resize"].SerializeToString())
    node = given.graph.node[0]
    if wrong == "mode":
        node.attribute[0].type = AttributeProto.GRAPH
    elif wrong == "type":
        given.graph.initializer[0].data_type = 77
    elif wrong == "outputs":
        node.output.append("Z")
    else:
        node.attribute[0].s = b"\xff"
    assert myops.ort.doctor(given).errors


def test_extract_names_an_input_without_a_type() -> None:
    given = onnx.ModelProto.FromString(BASE.SerializeToString())
    given.graph.input[0].ClearField("type")
    with pytest.raises(myops.onnx.GraphError, match="'X', an input of the model, has no type"):
        myops.onnx.extract(given, outputs=["Y"])


CALLED_ON_BODIES: dict[str, Callable[[onnx.ModelProto], Any]] = {
    **FUNCTIONS,
    "to_half": myops.onnx.to_half,
    "quantize": lambda model: myops.onnx.quantize(model, data=[{"x": np.ones((2, 2), "f")}]),
}


@pytest.mark.parametrize("function", CALLED_ON_BODIES)
@pytest.mark.parametrize("op", ["If", "Loop", "Scan"])
def test_bodies_that_do_not_fit_their_node(op: str, function: str) -> None:
    """Without a body, and with one that lacks its inputs or outputs."""
    call = {
        "If": """If(c) <then_branch = t () => (float[2,2] a) { a = Neg(x) },
                       else_branch = e () => (float[2,2] b) { b = Abs(x) }>""",
        "Loop": """Loop(n, c, x) <body = l (int64 i, bool go, float[2,2] a)
                       => (bool on, float[2,2] b) { on = Identity(go) b = Neg(a) }>""",
        "Scan": """Scan<num_scan_inputs = 0, body = s (float[2,2] a) => (float[2,2] b)
                       { b = Neg(a) }>(x)""",
    }[op]  # fmt: skip
    text = f"""<ir_version: 8, opset_import: ["": 17]>
        g (float[2,2] x) => (float[2,2] y) <bool c = {{1}}, int64 n = {{2}}> {{ y = {call} }}"""
    whole = onnx.parser.parse_model(text)
    for damage in ("attribute", "input", "output"):
        given = onnx.ModelProto.FromString(whole.SerializeToString())
        (node,) = given.graph.node
        if damage == "attribute":
            del node.attribute[:]
        else:
            for item in node.attribute:
                item.g.ClearField(damage)
        said_of(CALLED_ON_BODIES[function], given)
    said_of(CALLED_ON_BODIES[function], whole)
