"""Model repositories for Triton, read by Triton's own protobuf; the application for Ray Serve."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from google.protobuf import text_format
from onnx import TensorProto, helper
from ort_models import FLOAT, add_model, model_of

import myops.ort
from myops.ort import _triton


@pytest.fixture(scope="module")
def proto() -> Any:
    name = "tritonclient.grpc.model_config_pb2"
    return pytest.importorskip(name, reason="tritonclient is of the extra test")


def config_of(folder: Path, name: str, proto: Any) -> Any:
    text = (folder / name / "config.pbtxt").read_text("utf-8")
    return text_format.Parse(text, proto.ModelConfig())


def test_repository_has_the_layout_of_triton(proto: Any, tmp_path: Path) -> None:
    path = tmp_path / "add.onnx"
    onnx.save(add_model(), path)
    model = onnx.load(path)
    model.graph.output[0].type.tensor_type.shape.dim.add(dim_param="N")
    model.graph.output[0].type.tensor_type.shape.dim.add(dim_value=3)
    onnx.save(model, path)
    made = myops.ort.bundle(path, tmp_path / "models", triton="add")
    assert set(made.files) == {
        "README.md", "add/config.pbtxt", "add/1/model.onnx", "add/1/libmyops_ort.so",
        "add/1/load.py", "add/1/load.h", "add/1/README.md",
    }  # fmt: skip
    assert all((made.folder / item).is_file() for item in made.files)
    config = config_of(made.folder, "add", proto)
    assert (config.name, config.backend, config.max_batch_size) == ("add", "onnxruntime", 0)
    assert [(item.name, item.data_type, list(item.dims)) for item in config.input] == [
        ("a", proto.TYPE_FP32, [-1, 3]), ("b", proto.TYPE_FP32, [3]),
    ]  # fmt: skip
    assert [list(item.dims) for item in config.output] == [[-1, 3]]
    (library,) = config.model_operations.op_library_filename
    assert library == "/models/add/1/libmyops_ort.so"
    (group,) = config.instance_group
    assert group.kind == proto.ModelInstanceGroup.KIND_CPU
    session = myops.ort.session(made.model, named_libraries="trust")
    feeds = {"a": np.float32([[1, 2, 3]]), "b": np.float32([1, 1, 1])}
    assert session.run(None, feeds)[0].tolist() == [[3, 5, 7]]


@pytest.mark.parametrize("kind", [
    "BOOL", "UINT8", "INT8", "UINT16", "INT16", "UINT32", "INT32", "UINT64", "INT64", "FLOAT16",
    "FLOAT", "DOUBLE", "STRING", "BFLOAT16",
])  # fmt: skip
def test_types_scalars_and_names_are_written_for_triton(
    kind: str, proto: Any, tmp_path: Path
) -> None:
    """Every type is written as that of Triton; a scalar has one axis and no empty reshape, which
    Triton refuses if max_batch_size is 0; a name may have any character."""
    name = 'ü "x"\\\n\t/:0'
    value = getattr(TensorProto, kind), []
    node = helper.make_node("Identity", [name], ["y"])
    model = model_of([node], {name: value}, {"y": value})
    made = myops.ort.bundle(model, tmp_path / "models", triton="m-1", check=False,
                            repository="/srv/all models/")  # fmt: skip
    config = config_of(made.folder, "m-1", proto)
    assert config.input[0].name == name
    same = {"FLOAT": "FP32", "FLOAT16": "FP16", "DOUBLE": "FP64", "BFLOAT16": "BF16"}
    assert config.input[0].data_type == getattr(proto, f"TYPE_{same.get(kind, kind)}")
    for value in (config.input[0], config.output[0]):
        assert list(value.dims) == [1]
        assert not value.HasField("reshape")
    assert not config.model_operations.op_library_filename


@pytest.mark.parametrize(("elements", "shape", "message"), [
    (TensorProto.FLOAT8E4M3FN, [1], "FLOAT8E4M3FN, which Triton has no type for"),
    (FLOAT, None, "Triton wants the rank"),
    (FLOAT, [2, 0], "got an axis of length 0"),
])  # fmt: skip
def test_models_that_triton_cannot_describe_are_refused(
    elements: int, shape: Any, message: str, tmp_path: Path
) -> None:
    value = elements, shape
    model = model_of([helper.make_node("Identity", ["x"], ["y"])], {"x": value}, {"y": value})
    with pytest.raises(ValueError, match=message):
        myops.ort.bundle(model, tmp_path / "models", triton="m")
    assert not (tmp_path / "models").exists()


@pytest.mark.parametrize("name", ["a/b", "..", "a b", ".m"])
def test_wrong_model_names_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="triton: got the model name"):
        myops.ort.bundle(add_model(), tmp_path / "models", triton=name)
    assert not (tmp_path / "models").exists()


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a folder, and their bytes."""
    return {str(item.relative_to(folder)): item.read_bytes()
            for item in folder.rglob("*") if item.is_file()}  # fmt: skip


def test_models_are_added_to_a_repository(proto: Any, tmp_path: Path) -> None:
    """Nothing that was there changes, and both run in one process, as they do in a server."""
    folder = tmp_path / "models"
    model = add_model()
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    model.graph.output[0].type.tensor_type.shape.dim.add(dim_value=3)
    first = myops.ort.bundle(model, folder, triton="one")
    (folder / "one" / "2").mkdir()
    before = contents(folder)
    second = myops.ort.bundle(model, folder, triton="two")
    assert set(second.files) == {
        "two/README.md", "two/config.pbtxt", "two/1/model.onnx", "two/1/libmyops_ort.so",
        "two/1/load.py", "two/1/load.h", "two/1/README.md",
    }  # fmt: skip
    after = contents(folder)
    assert after.keys() - before.keys() == set(second.files)
    assert {name: after[name] for name in before} == before
    assert sorted(item.name for item in folder.iterdir()) == ["README.md", "one", "two"]
    (library,) = config_of(folder, "two", proto).model_operations.op_library_filename
    assert library == "/models/two/1/libmyops_ort.so"
    assert [item.name for item in tmp_path.iterdir()] == ["models"]
    feeds = {"a": np.float32([[1, 2, 3]]), "b": np.float32([1, 1, 1])}
    for made in (first, second):
        options = onnxruntime.SessionOptions()
        options.register_custom_ops_library(str(made.model.parent / "libmyops_ort.so"))
        session = onnxruntime.InferenceSession(made.model, options)
        assert session.run(None, feeds)[0].tolist() == [[3, 5, 7]]


def test_a_repository_of_others_is_extended(tmp_path: Path) -> None:
    """One without any file of ours, whose models have no configuration."""
    folder = tmp_path / "models"
    (folder / "resnet" / "1").mkdir(parents=True)
    (folder / "resnet" / "1" / "model.onnx").write_bytes(b"x")
    (folder / "README.md").write_text("ours")
    before = contents(folder)
    value = FLOAT, [2]
    model = model_of([helper.make_node("Neg", ["x"], ["y"])], {"x": value}, {"y": value})
    made = myops.ort.bundle(model, folder, triton="neg", check=False)
    after = contents(folder)
    assert after.keys() - before.keys() == set(made.files)
    assert {name: after[name] for name in before} == before


@pytest.mark.parametrize("what", ["model", "file", "link", "empty folder"])
def test_a_name_that_is_taken_is_refused(what: str, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    (folder / "other" / "1").mkdir(parents=True)
    taken = folder / "neg"
    if what == "model":
        (taken / "1").mkdir(parents=True)
    elif what == "file":
        taken.write_text("notes")
    elif what == "link":
        taken.symlink_to("nowhere")
    else:
        taken.mkdir()
    before = contents(folder)
    message = f"'neg', which {folder} has already, expected a new one"
    with pytest.raises(FileExistsError, match=re.escape(message)):
        myops.ort.bundle(add_model(), folder, triton="neg")
    assert contents(folder) == before
    assert [item.name for item in tmp_path.iterdir()] == ["models"]


def test_a_folder_of_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.py").write_text("")
    with pytest.raises(FileExistsError, match="is no model repository, whose folders have"):
        myops.ort.bundle(add_model(), tmp_path, triton="m")
    assert list(contents(tmp_path)) == ["src/main.py"]


def test_a_model_that_appears_meanwhile_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "models"
    (folder / "other" / "1").mkdir(parents=True)
    write = _triton.readme

    def slow(*given: str) -> str:
        (folder / "neg").mkdir()
        (folder / "neg" / "theirs").write_text("x")
        return write(*given)

    monkeypatch.setattr(_triton, "readme", slow)
    value = FLOAT, [2]
    model = model_of([helper.make_node("Neg", ["x"], ["y"])], {"x": value}, {"y": value})
    with pytest.raises(FileExistsError, match="made by someone else meanwhile"):
        myops.ort.bundle(model, folder, triton="neg", check=False)
    assert list(contents(folder)) == ["neg/theirs"]
    assert [item.name for item in tmp_path.iterdir()] == ["models"]


def served(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """serve_app.py without Ray, whose decorators are replaced by ones that do nothing."""

    def same(*_: Any, **__: Any) -> Any:
        def decorate(item: Any) -> Any:
            if isinstance(item, type):
                item.bind = lambda: None  # type: ignore[attr-defined]
            return item

        return decorate

    ray, requests, responses = (ModuleType(name) for name in ("ray", "requests", "responses"))
    ray.serve = SimpleNamespace(deployment=same, batch=same)  # type: ignore[attr-defined]
    requests.Request = responses.Response = object  # type: ignore[attr-defined]
    for name, module in (("ray", ray), ("starlette", ModuleType("starlette")),
                         ("starlette.requests", requests),
                         ("starlette.responses", responses)):  # fmt: skip
        monkeypatch.setitem(sys.modules, name, module)
    for name in ("load", "serve_app"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(folder))
    import serve_app  # type: ignore[import-not-found]

    monkeypatch.delitem(sys.modules, "load")
    monkeypatch.delitem(sys.modules, "serve_app")
    return serve_app


@pytest.mark.parametrize("joined", [True, False])
def test_requests_are_batched_only_if_bits_are_equal(
    joined: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """A graph that reduces over axis 0 would mix the requests of different users."""
    reduced = 1 if joined else 0
    nodes = [helper.make_node("ReduceMax", ["x"], ["m"], axes=[reduced]),
             helper.make_node("Sub", ["x", "m"], ["y"])]  # fmt: skip
    kind = {"x": (FLOAT, ("N", 4))}
    model = model_of(nodes, kind, {"y": (FLOAT, ("N", 4))})
    model.opset_import[0].version = 17
    made = myops.ort.bundle(model, tmp_path / "deploy", ray_serve=True, check=False)
    assert "serve_app.py" in made.files
    app = served(made.folder, monkeypatch)
    model = app.Model()
    for _ in range(2):
        feeds = [{"x": rng.random((1, 4)).astype(np.float32)} for _ in range(5)]
        expected = [feed["x"] - feed["x"].max(axis=reduced, keepdims=True) for feed in feeds]
        for got, want in zip(model.run(feeds), expected, strict=True):
            np.testing.assert_array_equal(got["y"], want)
    assert [*model._equal.values()] == [joined]
    # Requests that are all equal do not show whether requests influence each other.
    first, rows = app.Model(), rng.random((4, 4)).astype(np.float32)
    first.run([{"x": rows[:1]}] * 4)
    for got, row in zip(first.run([{"x": row[None]} for row in rows]), rows, strict=True):
        maximum = row if reduced == 0 else row.max()
        np.testing.assert_array_equal(got["y"], row[None] - maximum)
    wrong = model.run([{"z": np.float32([1])}, {"x": np.zeros((1, 3), np.float32)}])
    assert all(isinstance(item, Exception) for item in wrong)
    assert app.unpacked(app.packed({"x": np.arange(3)}))["x"].tolist() == [0, 1, 2]
    monkeypatch.setattr(app, "MOST_BYTES", 10_000)
    stream = io.BytesIO()
    np.savez_compressed(stream, x=np.zeros(1_000_000))
    assert len(stream.getvalue()) < app.MOST_BYTES
    with pytest.raises(ValueError, match="at most 10000 bytes"):
        app.unpacked(stream.getvalue())


def test_arrays_of_requests_and_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other byte order, which ONNX Runtime does not look at; texts without pickles; and no
    memory for every shape that clients send."""
    kinds = {"x": (FLOAT, ("N", "M")), "t": (TensorProto.STRING, ("N",))}
    nodes = [helper.make_node("Neg", ["x"], ["y"]), helper.make_node("Identity", ["t"], ["u"])]
    model = model_of(nodes, kinds, {"y": kinds["x"], "u": kinds["t"]})
    made = myops.ort.bundle(model, tmp_path / "deploy", ray_serve=True, check=False)
    app = served(made.folder, monkeypatch)
    served_model = app.Model()
    stream = io.BytesIO()
    np.savez(stream, x=np.array([[1, 2, 3]], ">f4"), t=np.array(["bé"]))
    (answer,) = served_model.run([app.unpacked(stream.getvalue())])
    with np.load(io.BytesIO(app.packed(answer)), allow_pickle=False) as arrays:
        assert arrays["y"].tolist() == [[-1, -2, -3]]
        assert arrays["u"].tolist() == ["bé"]
    monkeypatch.setattr(app, "MOST_KINDS", 3)
    for length in range(1, 8):
        feeds = [{"x": np.full((1, length), n, np.float32), "t": np.array(["a"])} for n in (1, 2)]
        served_model.run(feeds)
    assert len(served_model._equal) == 3
