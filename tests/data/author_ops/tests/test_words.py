"""Strings as data: in NumPy, in ONNX Runtime and in onnx's tools; refused by name in PyTorch."""

import os
import subprocess
import sys

import numpy as np
import onnx
import onnx.reference
import pytest
import torch
from author_ops.words import label_words

import myops.onnx
import myops.ort

WORDS = [["", "a", "bé"], ["\U0001f600 x", "nul \0 inside", "z" * 1000]]
LABELS = ["", "> ", "ü"]
DTYPES = [object, None]
if hasattr(np.dtypes, "StringDType"):  # from NumPy 2 on
    DTYPES.append(np.dtypes.StringDType())


def expected(words, label):
    labelled = [[label + word for word in row] for row in words]
    return labelled, [[len(word.encode()) for word in row] for row in labelled]


def model(label, dims=("n", "m"), constant=None):
    info = onnx.helper.make_tensor_value_info
    node = onnx.helper.make_node(
        "LabelWords", ["words"], ["labelled", "lengths"], domain="author_ops", label=label
    )
    outputs = [info("labelled", onnx.TensorProto.STRING, dims), info("lengths", 7, dims)]
    inputs = [] if constant is not None else [info("words", onnx.TensorProto.STRING, dims)]
    initializers = []
    if constant is not None:
        tensor = onnx.helper.make_tensor(
            "words", onnx.TensorProto.STRING, constant.shape, [w.encode() for w in constant.flat]
        )
        initializers.append(tensor)
    graph = onnx.helper.make_graph([node], "words", inputs, outputs, initializers)
    opsets = [onnx.helper.make_opsetid("", 20), onnx.helper.make_opsetid("author_ops", 1)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9)


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy(label, dtype):
    labelled, lengths = label_words.numpy(np.array(WORDS, dtype), label=label)
    assert (labelled.tolist(), lengths.tolist()) == expected(WORDS, label)
    assert (labelled.dtype, lengths.dtype) == (object, np.int64)


def test_numpy_layouts_and_threads():
    words = np.array(WORDS * 100, object)
    for array in (words.T, words[::-2], words[:, ::-1], words[:0], words[0]):
        for threads in (1, 7):
            labelled, _ = label_words.numpy(np.asarray(array, object), label=">", threads=threads)
            assert labelled.tolist() == (np.array(">", object) + np.asarray(array, object)).tolist()


@pytest.mark.parametrize("label", LABELS)
def test_onnx_runtime(label):
    session = myops.ort.session(model(label))
    for words in (WORDS, WORDS * 50, [[]]):
        array = np.array(words, object)
        labelled, lengths = session.run(None, {"words": array})
        assert (labelled.tolist(), lengths.tolist()) == expected(words, label)
    by_numpy = label_words.numpy(array, label=label)
    assert labelled.shape == by_numpy[0].shape


def test_a_constant_of_a_model():
    session = myops.ort.session(model("> ", constant=np.array(WORDS, object)))
    for _ in range(3):
        labelled, _ = session.run(None, {})
        assert labelled.tolist() == expected(WORDS, "> ")[0]


def test_two_nodes_hand_strings_on():
    """The memory of a result is not shared."""
    first = model("a")
    node = onnx.NodeProto.FromString(first.graph.node[0].SerializeToString())
    node.input[0], node.output[0], node.output[1] = "labelled", "twice", "lengths_2"
    first.graph.node.append(node)
    first.graph.output.append(
        onnx.helper.make_tensor_value_info("twice", onnx.TensorProto.STRING, None)
    )
    session = myops.ort.session(first)
    words = np.array(WORDS, object)
    once, _, twice = session.run(None, {"words": words})
    assert twice.tolist() == expected(expected(WORDS, "a")[0], "a")[0]
    assert once.tolist() == expected(WORDS, "a")[0]


def test_onnx_tools():
    made = model(">")
    myops.onnx.register_schemas(made)
    onnx.checker.check_model(made, full_check=True)
    inferred = onnx.shape_inference.infer_shapes(made, strict_mode=True)
    kinds = [item.type.tensor_type.elem_type for item in inferred.graph.output]
    assert kinds == [onnx.TensorProto.STRING, onnx.TensorProto.INT64]
    dims = inferred.graph.output[0].type.tensor_type.shape.dim
    assert [dim.dim_param for dim in dims] == ["n", "m"]
    evaluator = onnx.reference.ReferenceEvaluator(made, new_ops=myops.onnx.reference_ops())
    labelled, _ = evaluator.run(None, {"words": np.array(WORDS, object)})
    assert labelled.tolist() == expected(WORDS, ">")[0]


@pytest.mark.parametrize(
    ("words", "got"),
    [
        (np.array(["a", 3], object), "an element of type int, expected a str"),
        (np.array(["\ud800"], object), "a str with an unpaired surrogate"),
        (np.array([b"a"]), "dtype bytes8, expected string"),
        (np.array([1.5]), "dtype float64, expected string"),
    ],
)
def test_what_is_no_string_is_refused(words, got):
    with pytest.raises(ValueError, match=f"label_words: words: got {got}"):
        label_words.numpy(words)


@pytest.mark.parametrize("words", [np.array(["a"]), ["a"], "a"])
def test_pytorch_has_no_strings(words):
    with pytest.raises(RuntimeError, match=r"words: got .*PyTorch has no tensors of strings"):
        label_words(words)


def test_pytorch_refuses_by_name():
    text = "label_words: words: got dtype float32, expected string"
    for function in (label_words, torch.ops.author_ops.label_words):
        with pytest.raises(RuntimeError, match=text):
            function(torch.zeros(2))


def test_memory_is_bounded():
    """The limit is read once, so by another process."""
    program = (
        "import numpy as np; from author_ops.words import label_words\n"
        "label_words.numpy(np.array(['x'], object))\n"
        "label_words.numpy(np.array(['x' * 1000] * 100, object))"
    )
    environment = {**os.environ, "MYOPS_MAX_BYTES": "50000"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert "Error: label_words: words: got a copy of its strings" in done.stderr
