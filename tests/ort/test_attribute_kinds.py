"""Attributes of every kind that ONNX has, for every attribute of every op: the declared kind is
accepted, any other is refused with its name. In ONNX Runtime, as PyOps, in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import AttributeProto, TensorProto, helper
from runtimes import node_model, run_numpy
from test_probe import probe_session

import myops.ort
from myops import _description

DECLARED = {  # the kinds that stand for a type of the description
    "bool": {"INT"}, "int": {"INT"}, "float": {"FLOAT"}, "string": {"STRING"},
    "ints": {"INTS"}, "floats": {"FLOATS"},
}  # fmt: skip
PROBE = {
    "flag": "bool", "integer": "int", "real": "float", "text": "string", "choice": "string",
    "ints": "ints", "floats": "floats",
}  # fmt: skip
GOT = {
    "INT": "an int", "FLOAT": "a float", "STRING": "a string", "TENSOR": "a tensor",
    "INTS": "a list of ints", "FLOATS": "a list of floats", "STRINGS": "a list of strings",
}  # fmt: skip
ATTRIBUTES = [
    (info.name, item.name, item.type)
    for info in _description.onnx_ops()
    for item in info.attributes
] + [("probe", name, kind) for name, kind in PROBE.items()]


def every_kind(name: str) -> list[AttributeProto]:
    """An attribute of each kind, and the lists empty too."""
    tensor = helper.make_tensor("t", TensorProto.INT64, [2], [1, 1])
    sparse = helper.make_sparse_tensor(
        tensor, helper.make_tensor("i", TensorProto.INT64, [2], [0, 1]), [4]
    )
    kind = helper.make_tensor_type_proto(TensorProto.FLOAT, [2])
    graph = helper.make_graph(
        [helper.make_node("Constant", [], ["z"], value=tensor)], "g", [],
        [helper.make_tensor_value_info("z", TensorProto.INT64, [2])],
    )  # fmt: skip
    values = [1, 1.5, "linear", [1, 1], [1.5], ["a"], tensor, sparse, graph, kind]
    made = [helper.make_attribute(name, value) for value in values]
    made += [helper.make_attribute(name, [value]) for value in (tensor, sparse, graph, kind)]
    lists = [
        item for item in AttributeProto.AttributeType.values() if item >= AttributeProto.FLOATS
    ]
    lists.remove(AttributeProto.SPARSE_TENSOR)
    lists.remove(AttributeProto.TYPE_PROTO)
    return made + [helper.make_attribute(name, [], attr_type=item) for item in lists]


def kind_of(attribute: AttributeProto) -> str:
    return AttributeProto.AttributeType.Name(attribute.type)


def inputs_of(op: str) -> list[np.ndarray]:
    """An array for each input: attributes are read before a shape can be wrong."""
    info = _description.OPS[op]
    return [np.ones(1, info.types.get(item.type, [item.type])[0]) for item in info.inputs]


def model_with(op: str, *attributes: AttributeProto) -> onnx.ModelProto:
    """A model of one node of the op for each attribute, one after another."""
    model = node_model(op, inputs_of(op))
    for value in model.graph.input:
        value.type.tensor_type.ClearField("shape")
    (node,), (result,) = model.graph.node, model.graph.output
    element_type = result.type.tensor_type.elem_type
    del model.graph.node[:], model.graph.output[:]
    for number, attribute in enumerate(attributes):
        model.graph.node.append(node)
        kept = [item for item in node.attribute if item.name != attribute.name]
        del model.graph.node[-1].attribute[:]
        model.graph.node[-1].attribute.extend([*kept, attribute])
        model.graph.node[-1].output[0] = f"y{number}"
        output = helper.make_tensor_value_info(f"y{number}", element_type, None)
        model.graph.output.append(output)
    return model


def load(op: str, attribute: AttributeProto, library: str) -> Any:
    if op == "probe":
        return probe_session(library, attributes={attribute.name: attribute})
    return quiet(model_with(op, attribute))


def quiet(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return myops.ort.session(model, session_options=options)


def test_every_kind_of_onnx_is_tested() -> None:
    kinds = {kind_of(attribute) for attribute in every_kind("a")}
    assert kinds == set(AttributeProto.AttributeType.keys()) - {"UNDEFINED"}
    assert sum(kind == "INTS" for kind in map(kind_of, every_kind("a"))) == 2


@pytest.mark.parametrize(("op", "name", "declared"), ATTRIBUTES)
def test_onnxruntime_accepts_only_the_declared_kind(
    probe_library: str, op: str, name: str, declared: str
) -> None:
    for attribute in every_kind(name):
        kind = kind_of(attribute)
        refusal = ""
        try:
            load(op, attribute, probe_library)
        except Exception as error:  # onnxruntime's own types
            refusal = str(error)
        mismatch = f"{op}: {name}: got {GOT.get(kind, 'something else')}, expected a"
        if kind in DECLARED[declared]:
            assert mismatch not in refusal
        else:
            assert mismatch in refusal, f"{kind}: {refusal or 'loaded'}"


@pytest.mark.parametrize(
    ("op", "name", "declared"), [item for item in ATTRIBUTES if item[0] != "probe"]
)
def test_pyops_refuse_other_kinds_with_the_same_text(op: str, name: str, declared: str) -> None:
    for attribute in every_kind(name):
        kind = kind_of(attribute)
        if kind in DECLARED[declared]:
            continue
        with pytest.raises(ValueError, match=rf"^{op}: {name}: got (?P<got>[a-z ]+), expected a"):
            myops.ort.pyop_session(model_with(op, attribute))


@pytest.mark.parametrize(
    ("op", "name", "declared"), [item for item in ATTRIBUTES if item[0] != "probe"]
)
def test_numpy_calls_refuse_other_types(op: str, name: str, declared: str) -> None:
    fits: dict[str, tuple[type, ...]] = {
        "bool": (bool, int), "int": (int, bool), "float": (float, int, bool), "string": (str,),
        "ints": (list,), "floats": (list,),
    }  # fmt: skip
    for value in (True, 1, 1.5, "linear", [1], [1.5], ["a"], [[1]], np.ones(3), None, {}, object()):
        if isinstance(value, fits[declared]) and value not in ([1.5], ["a"], [[1]]):
            continue
        with pytest.raises((TypeError, ValueError), match=f"^{op}: {name}: got "):
            run_numpy(op, inputs_of(op), {name: value})


def test_a_wrong_kind_is_refused_beside_a_valid_node() -> None:
    """In any order of the nodes; and the next model is not affected."""
    empty = helper.make_attribute("dilations", [], attr_type=AttributeProto.INTS)
    (wrong,) = [a for a in every_kind("dilations") if kind_of(a) == "SPARSE_TENSOR"]
    text = "deform_conv2d: dilations: got something else, expected a list of ints"
    for _ in range(3):
        for attributes in ([empty, wrong], [wrong, empty], [wrong]):
            with pytest.raises(Exception, match=text):
                quiet(model_with("deform_conv2d", *attributes))
        broken = model_with("deform_conv2d", wrong)
        broken.graph.node.append(helper.make_node("NoSuchOp", ["y0"], ["z"]))
        with pytest.raises(Exception, match="NoSuchOp"):
            quiet(broken)
        assert quiet(model_with("deform_conv2d", empty, empty)).get_outputs()


def test_unknown_attributes_are_refused_except_by_onnxruntime() -> None:
    """Standard operators refuse them. ONNX Runtime does not tell our library; others do."""
    model = model_with("deform_conv2d", helper.make_attribute("pad", [1, 1, 1, 1]))
    assert quiet(model).get_outputs()
    text = "deform_conv2d: got the attribute 'pad', expected one of dilations, group,"
    with pytest.raises(ValueError, match=text):
        myops.ort.pyop_session(model)
    myops.onnx.register_schemas()
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.SetInParent()  # which the checker wants
    with pytest.raises(onnx.checker.ValidationError, match="Unrecognized attribute: pad"):
        onnx.checker.check_model(model)
    assert "attribute-unknown" in {finding.code for finding in myops.ort.doctor(model).findings}
