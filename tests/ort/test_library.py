"""The ONNX Runtime library: what it exports and needs, what a session takes, and which nodes it
knows then. Values are tested with each op."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from ort_models import add_model, model_of, run_model
from runtimes import ONNX_TYPES, assert_equal_bits, random_array, run_numpy

import myops.ort
from myops import _description, _libraries

# ---- The file.


def test_library_exports_two_functions_only() -> None:
    command = ["nm", "-D", "--defined-only", myops.ort.get_library_path()]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert sorted(line.split()[-1] for line in listing.splitlines()) == [
        "RegisterCustomOps",
        "myops_record_calls",
    ]


def test_library_links_neither_torch_nor_onnxruntime() -> None:
    command = ["readelf", "-d", myops.ort.get_library_path()]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", listing)
    assert needed
    allowed = ("libc.", "libm.", "libstdc++.", "libgcc_s.", "ld-linux", "libpthread.")
    assert [name for name in needed if not name.startswith(allowed)] == []


def test_a_missing_library_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_libraries.OURS, "_folder", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"libmyops_ort.*pip install"):
        myops.ort.get_library_path()


def test_sessions_work_without_torch() -> None:
    script = """
import sys
sys.modules["torch"] = None  # an import of it raises ImportError
import numpy as np, myops, myops.ort, onnx
from onnx import helper
info = lambda name: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2])
node = helper.make_node("MyAdd", ["a", "b"], ["c"], domain="myops")
graph = helper.make_graph([node], "g", [info("a"), info("b")], [info("c")])
opsets = [helper.make_opsetid("", 19), helper.make_opsetid("myops", 1)]
model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
feeds = {"a": np.float32([1, 2]), "b": np.float32([3, 4])}
for session in (myops.ort.session(model), myops.ort.pyop_session(model)):
    assert session.run(None, feeds)[0].tolist() == [5, 8]
"""
    subprocess.run([sys.executable, "-c", script], check=True)


# ---- What a session takes.


def test_session_accepts_paths_bytes_and_protos(tmp_path: Path) -> None:
    model = add_model()
    path = tmp_path / "add.onnx"
    onnx.save(model, path)
    feeds = {"a": np.ones((2, 3), np.float32), "b": np.arange(3, dtype=np.float32)}
    for form in (path, str(path), model.SerializeToString(), model):
        result = myops.ort.session(form).run(None, feeds)[0]
        assert result.tolist() == [[2, 3, 4], [2, 3, 4]]


def test_a_large_model_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(myops.ort._session, "_MAX_BYTES", 10)
    with pytest.raises(ValueError, match=r"2 GiB or more.*save_as_external_data=True"):
        myops.ort.session(add_model())
    with pytest.raises(ValueError, match=r"2 GiB or more.*PyOps need it in one message"):
        myops.ort.pyop_session(add_model())


def test_session_options_serve_several_sessions(probe_library: str) -> None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    assert myops.ort.register(options, probe_library) is options
    myops.ort.register(options)
    for _ in range(2):
        myops.ort.session(add_model(), session_options=options, libraries=[probe_library])
    with pytest.raises(FileNotFoundError, match="no such custom-op library: nowhere"):
        myops.ort.register(options, "nowhere.so")


@pytest.mark.parametrize("form", ["libprobe.so", "./libprobe.so", Path("libprobe.so")])
def test_a_library_in_the_working_folder_needs_no_folder(
    form: Any, probe_library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system's loader would look for a bare name in its search path only."""
    monkeypatch.chdir(Path(probe_library).parent)
    model = add_model()
    myops.ort.register(onnxruntime.SessionOptions(), form)
    myops.ort.session(model, libraries=[form])
    myops.ort.pyop_session(model, libraries=[form])
    assert myops.ort.explain(model, libraries=[form], myops_library=True).nodes
    with pytest.raises(RuntimeError, match="is not a registered function"):
        myops.ort.explain(model, libraries=[form], myops_library=False)


def test_session_passes_other_arguments_to_onnxruntime() -> None:
    session = myops.ort.session(
        add_model(), providers=[("CPUExecutionProvider", {})], disabled_optimizers=[]
    )
    assert session.get_providers() == ["CPUExecutionProvider"]


def test_an_old_or_missing_onnxruntime_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnxruntime, "__version__", "1.16.3")
    with pytest.raises(ImportError, match=r"got onnxruntime 1\.16\.3, expected 1\.17 or later"):
        myops.ort.session(add_model())
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ImportError, match=r"pip install 'onnxruntime>=1\.17'"):
        myops.ort.register(object())


# ---- What is registered.


def combinations() -> list[Any]:
    """Each op with each combination of its dtypes."""
    found = []
    for info in _description.onnx_ops():
        for choice in itertools.product(*info.types.values()):
            chosen = dict(zip(info.types, choice, strict=True))
            found.append(pytest.param(info, chosen, id=f"{info.onnx_type}-{'-'.join(choice)}"))
    return found


@pytest.mark.parametrize(("info", "chosen"), combinations())
def test_every_op_is_registered_for_every_dtype(
    info: _description.OpInfo, chosen: dict[str, str]
) -> None:
    node = helper.make_node(
        info.onnx_type,
        [item.name for item in info.inputs],
        [f"out_{item.name}" for item in info.outputs],
        domain="myops",
    )
    model = model_of(
        [node],
        {item.name: (ONNX_TYPES[chosen[item.type]], None) for item in info.inputs},
        {f"out_{item.name}": (ONNX_TYPES[chosen[item.type]], None) for item in info.outputs},
    )
    session = myops.ort.session(model)
    names = {"float32": "float", "float64": "double"}
    for item, output in zip(info.outputs, session.get_outputs(), strict=True):
        dtype = chosen[item.type]
        assert output.type == f"tensor({names.get(dtype, dtype)})"


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "float16"])
def test_types_between_nodes_are_inferred(dtype: str) -> None:
    """Only the library states the type of a value between two nodes."""
    add = [
        helper.make_node("MyAdd", ["a", "b"], ["c"], domain="myops"),
        helper.make_node("MyAdd", ["c", "c"], ["d"], domain="myops"),
    ]
    kind = ONNX_TYPES[dtype]
    model = model_of(add, {"a": (kind, [2]), "b": (kind, [2])}, {"d": (kind, None)})
    feeds = {"a": np.array([1, 2], dtype), "b": np.array([3, 4], dtype)}
    assert myops.ort.session(model).run(None, feeds)[0].tolist() == [15, 24]


def test_wrong_types_are_refused_when_the_model_is_loaded() -> None:
    with pytest.raises(Exception, match=r"Type 'tensor\(uint8\)' of input parameter \(a\)"):
        myops.ort.session(add_model(dtype=TensorProto.UINT8))
    mixed = add_model()
    mixed.graph.input[1].type.tensor_type.elem_type = TensorProto.DOUBLE
    with pytest.raises(Exception, match="MyAdd"):
        myops.ort.session(mixed)


def test_optional_inputs_may_be_absent_or_empty(rng: np.random.Generator) -> None:
    x = random_array(rng, (1, 2, 4, 6), "float32")
    scales, sizes = np.float32([1, 1, 2, 1.5]), np.int64([1, 2, 8, 9])
    nothing = np.float32([])
    for inputs in (
        [x, None, scales, None],  # a gap, and the last one missing
        [x, nothing, scales, None],
        [x, None, None, sizes],
        [x, nothing, nothing, sizes],
        [x, nothing, scales, np.int64([])],
    ):
        (result,) = run_model("resize", inputs, {"mode": "linear"})
        expected = run_numpy("resize", [x, None, None, sizes], {"mode": "linear"})[0]
        assert result.shape == (1, 2, 8, 9)
        assert_equal_bits(result, expected)


@pytest.mark.skipif(sys.platform != "linux", reason="of other systems, the loader looks itself")
@pytest.mark.parametrize(("share", "message"), [
    (0, "no shared library"), (1e-6, "the beginning"),
    (0.5, "the beginning"), (0.9, "the beginning"),
])  # fmt: skip
def test_a_library_that_was_cut_off_is_refused(share: float, message: str, tmp_path: Path) -> None:
    """The system's loader would end the process with SIGBUS."""
    whole = Path(myops.ort.get_library_path()).read_bytes()
    path = tmp_path / "libcut.so"
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ValueError, match=f"libcut.so: got .*{message}.*, expected"):
        myops.ort.register(onnxruntime.SessionOptions(), path)
