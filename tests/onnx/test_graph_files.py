"""The sources and targets that every graph function accepts; and how files are read."""

from __future__ import annotations

import inspect
import io
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import myops.onnx
from myops.onnx.graph import files

DATA = [{"x": np.linspace(-1, 1, 16, dtype=np.float32).reshape(1, 1, 4, 4)}]

# Calls of the graph functions, given model and f.
CALLS: dict[str, Callable[..., Any]] = {
    "add_function_bodies": lambda function, model, f: function(model, f),
    "add_outputs": lambda function, model, f: function(model, ["c"], f),
    "edit": lambda function, model, f: function(model, f, rename={"c": "d"}),
    "extract": lambda function, model, f: function(model, ["x"], ["c"], f),
    "lower": lambda function, model, f: function(model, None, f),
    "quantize": lambda function, model, f: function(model, f, data=DATA).model,
    "to_half": lambda function, model, f: function(model, f, data=DATA).model,
    "upgrade_ops": lambda function, model, f: function(model, f).model,
    "remove_function_bodies": lambda function, model, f: function(model, f),
    "simplify": lambda function, model, f: function(model, f).model,
}


def linear(ours: bool = True) -> onnx.ModelProto:
    """x * w, and a node of ours with the body that it has, or a standard Resize."""
    values = [helper.make_tensor_value_info("x", 1, [1, 1, 4, 4]),
              helper.make_tensor_value_info("y", 1, [1, 1, 8, 8])]  # fmt: skip
    weights = [numpy_helper.from_array(np.full((1, 1, 4, 4), 2, np.float32), "w"),
               numpy_helper.from_array(np.float32([1, 1, 2, 2]), "s")]  # fmt: skip
    nodes = [helper.make_node("Mul", ["x", "w"], ["c"], "mul"),
             helper.make_node("Resize", ["c", "", "s"], ["y"], "up", mode="nearest")]  # fmt: skip
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return myops.onnx.upgrade_ops(model).model if ours else model


def given(kind: str, model: onnx.ModelProto, folder: Path) -> Any:
    path = folder / "in.onnx"
    if kind == "external":  # weights beside it, as of models over 2 GB
        copy = onnx.ModelProto.FromString(model.SerializeToString())  # saving empties it
        onnx.save(copy, path, save_as_external_data=True, location="w.data", size_threshold=1)
    else:
        onnx.save(model, path)
    forms = {"proto": model, "path": path, "str": str(path), "bytes": path.read_bytes()}
    return forms.get(kind, path)


@pytest.mark.parametrize("name", list(CALLS))
def test_weights_of_the_source_are_not_overwritten(name: str, tmp_path: Path) -> None:
    """Its own file may be replaced, but that of its weights would take the model away."""
    model = linear(name != "upgrade_ops")
    source = given("external", model, tmp_path)
    before = (tmp_path / "w.data").read_bytes()
    with pytest.raises(ValueError, match="holds weights of the model that is read"):
        CALLS[name](getattr(myops.onnx, name), source, tmp_path / "w.data")
    assert (tmp_path / "w.data").read_bytes() == before
    CALLS[name](getattr(myops.onnx, name), source, source)


def test_every_graph_function_is_tested() -> None:
    writing = {
        name for name in myops.onnx.__all__
        if inspect.isfunction(item := getattr(myops.onnx, name))
        and {"model", "f"} <= set(inspect.signature(item).parameters)
    }  # fmt: skip
    assert writing - {"export", "raise_ops"} == set(CALLS)  # that is upgrade_ops


@pytest.mark.parametrize("target", ["none", "path", "str", "stream", "itself"])
@pytest.mark.parametrize("source", ["proto", "path", "str", "bytes", "external"])
@pytest.mark.parametrize("name", CALLS)
def test_every_source_and_target_is_accepted(
    name: str, source: str, target: str, tmp_path: Path
) -> None:
    model = linear(ours=name != "upgrade_ops")
    before = model.SerializeToString(deterministic=True)
    (tmp_path / "to").mkdir()
    what = given(source, model, tmp_path)
    path, stream = tmp_path / "to" / "out.onnx", io.BytesIO()
    itself = tmp_path / "in.onnx"
    f = {"none": None, "path": path, "str": str(path), "stream": stream, "itself": itself}[target]
    result = CALLS[name](getattr(myops.onnx, name), what, f)
    assert isinstance(result, onnx.ModelProto)
    assert model.SerializeToString(deterministic=True) == before
    if target == "none":
        assert not list((tmp_path / "to").iterdir())
    elif target == "stream":
        assert onnx.load_from_string(stream.getvalue()) == result
    else:
        assert onnx.load(itself if target == "itself" else path) == result
    for tensor in result.graph.initializer:
        assert tensor.data_location == TensorProto.DEFAULT  # nothing refers to another file
        # Its numbers are here: raw, or, from ONNX Runtime's quantizer, in a field of their type.
        assert numpy_helper.to_array(tensor).shape == tuple(tensor.dims)


@pytest.mark.parametrize("name", CALLS)
def test_a_failure_keeps_the_file_that_was_there(name: str, tmp_path: Path) -> None:
    (tmp_path / "out.onnx").write_bytes(b"precious")
    broken = linear().SerializeToString()[:-9]
    with pytest.raises(ValueError, match="broken protobuf"):
        CALLS[name](getattr(myops.onnx, name), broken, tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx").read_bytes() == b"precious"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("start", [b"", b"\x00", b"\x08\x08", b"\x08\x08\x12\x04abcd\x3a"])
def test_large_files_that_are_no_model_are_not_read(start: bytes, tmp_path: Path) -> None:
    """A sparse file; reading it would take seconds and 40 GiB of memory."""
    path = tmp_path / "junk.onnx"
    with path.open("wb") as stream:
        stream.write(start)
        stream.truncate(40 * 2**30)
    began = time.perf_counter()
    with pytest.raises(ValueError, match="no ONNX model"):
        files.load(path)
    assert time.perf_counter() - began < 1


def test_a_graph_over_2_gib_is_refused(tmp_path: Path) -> None:
    """A field of 3 GiB, as a broken tool may write, is refused at once and not by protobuf."""
    path = tmp_path / "large.onnx"
    with path.open("wb") as stream:
        stream.write(b"\x08\x08\x3a\x80\x80\x80\x80\x0c")  # IR version; a graph of 3 GiB
        stream.truncate(stream.tell() + 3 * 2**30)
    with pytest.raises(ValueError, match=r"got 3\.0 GiB in one file, expected less than 2 GiB"):
        files.load(path)


def test_damaged_models_load_or_raise_value_error() -> None:
    """A model truncated at many lengths, and with one byte changed, loads or raises ValueError."""
    data = linear().SerializeToString()
    rng = np.random.default_rng(0)
    changed = [data[:length] for length in range(0, len(data), 7)]
    for place in rng.integers(0, len(data), 300):
        changed.append(data[:place] + rng.bytes(1) + data[place + 1 :])
    for item in changed:
        said = ""
        try:
            files.load(item)
        except ValueError as error:
            said = str(error)
        assert not said or re.search("got .*(expected|no ONNX model)", said), said


def test_loading_without_weights_accepts_what_protobuf_accepts(tmp_path: Path) -> None:
    """A file that protobuf reads is read, from a path as from bytes."""
    rng = np.random.default_rng(1)
    data = linear().SerializeToString()
    seen = 0
    for place in rng.integers(0, len(data), 400):
        item = data[:place] + rng.bytes(1) + data[place + 1 :]
        try:
            model = files.load(item)
        except ValueError:
            continue
        (tmp_path / "m.onnx").write_bytes(item)
        assert files.load(tmp_path / "m.onnx", weights=False) == model
        seen += 1
    assert seen > 100


@pytest.mark.parametrize("kind", ["value", "sparse_value", "value_floats", "value_ints"])
@pytest.mark.parametrize("where", ["graph", "body", "function"])
def test_weights_in_constant_nodes_are_counted(kind: str, where: str) -> None:
    data = np.arange(1, 101, dtype=np.int64 if kind == "value_ints" else np.float32)
    if kind == "value":
        node = helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(data))
    elif kind == "sparse_value":
        places = numpy_helper.from_array(np.arange(100, dtype=np.int64))
        sparse = helper.make_sparse_tensor(numpy_helper.from_array(data), places, [1000])
        node = helper.make_node("Constant", [], ["w"], sparse_value=sparse)
    else:
        node = helper.make_node("Constant", [], ["w"], **{kind: data.tolist()})
    graph = helper.make_graph([node], "g", [], [helper.make_tensor_value_info("w", 1, [100])])
    functions = []
    if where == "body":
        branch = helper.make_node("If", ["c"], ["y"], then_branch=graph, else_branch=graph)
        graph = helper.make_graph([branch], "o", [helper.make_tensor_value_info("c", 9, [])],
                                  [helper.make_tensor_value_info("y", 1, [100])])  # fmt: skip
    if where == "function":
        imports = [helper.make_opsetid("", 17)]
        functions = [helper.make_function("local", "F", [], ["w"], [node], imports)]
        graph.node[0].CopyFrom(helper.make_node("F", [], ["w"], domain="local"))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)],
                              functions=functions)  # fmt: skip
    summary = myops.onnx.inspect(model)
    copies = 2 if where == "body" else 1
    assert (summary.constants, summary.constant_bytes) == (copies, copies * data.nbytes)
    assert (summary.initializers, summary.initializer_bytes) == (0, 0)


@pytest.mark.parametrize("name", ["quantize", "to_half", "simplify"])
def test_what_takes_long_refuses_its_target_first(name: str, tmp_path: Path) -> None:
    """The model is not even read, so that no result is lost at the end."""
    more = {"data": []} if name == "quantize" else {}
    for f, error in ((tmp_path, IsADirectoryError), (tmp_path / "a" / "b", FileNotFoundError)):
        with pytest.raises(error, match=f"f: {re.escape(str(f))}: "):
            getattr(myops.onnx, name)("missing.onnx", f, **more)


def aliased(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with "ai.onnx" for the domain of the standard operators."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for holder in (copy, *copy.functions):
        for item in holder.opset_import:
            item.domain = item.domain or "ai.onnx"
    for node in (*copy.graph.node, *(node for item in copy.functions for node in item.node)):
        node.domain = node.domain or "ai.onnx"
    return copy


@pytest.mark.parametrize("name", sorted(CALLS))
@pytest.mark.parametrize("kind", ["model", "bytes", "path"])
def test_both_names_of_the_standard_domain(name: str, kind: str, tmp_path: Path) -> None:
    """Types behind a node of "ai.onnx" are known, as behind one of "", and results are the same."""
    model = myops.onnx.add_function_bodies(linear())
    other = aliased(model)
    text = other.SerializeToString(deterministic=True)
    (tmp_path / "other.onnx").write_bytes(text)
    source = {"model": other, "bytes": text, "path": tmp_path / "other.onnx"}[kind]
    function = getattr(myops.onnx, name)
    made = CALLS[name](function, source, None)
    assert made == CALLS[name](function, model, None)
    assert other.SerializeToString(deterministic=True) == text


def test_of_two_versions_of_the_standard_domain_the_last_counts() -> None:
    """As in ONNX Runtime."""
    model = linear()
    model.opset_import.insert(0, helper.make_opsetid("ai.onnx", 9))
    assert myops.onnx.inspect(model).opsets["ai.onnx"] == 17


@pytest.mark.parametrize("name", sorted(CALLS))
@pytest.mark.parametrize("version", [2**40, -(2**40)])
def test_a_version_that_no_function_of_onnx_takes_is_refused(name: str, version: int) -> None:
    model = myops.onnx.add_function_bodies(linear())
    for holder in (model, model.functions[0]):
        other = onnx.ModelProto.FromString(model.SerializeToString())
        where = other if holder is model else other.functions[0]
        where.opset_import[0].version = version
        with pytest.raises(ValueError, match=f"opset_import: got version {version} of 'ai.onnx'"):
            CALLS[name](getattr(myops.onnx, name), other, None)


@pytest.mark.parametrize("name", ["add_function_bodies", "lower", "to_half"])
def test_a_failure_inside_of_shape_inference_is_explained(name: str) -> None:
    """onnx looks for the first two inputs of a Loop, and raises what C++ raises for -2 others."""
    model = linear()
    model.graph.node.insert(0, helper.make_node("Loop", [], ["loop"]))
    with pytest.raises(ValueError, match="the model is not valid: "):
        CALLS[name](getattr(myops.onnx, name), model, None)
