"""The doctor on models that load: what runs, what is installed, the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from doctor_cases import FLOAT, TWO, add_body, examine, model_of, node
from onnx import TensorProto, helper
from typer.testing import CliRunner

import myops
import myops.onnx
import myops.ort
from myops import _libraries, cli
from myops.ort import _doctor
from myops.ort._doctor import environment, process


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        return myops.interpolate(self.conv(x), scale_factor=factor, mode="bicubic")


class Network(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.ModuleList([Block()])

    def forward(self, x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        y = self.body[0](x, factor)
        return myops.my_add(y, y)


@pytest.fixture(scope="module", params=["dynamo", "torchscript"])
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exported") / "model.onnx"
    myops.onnx.export(
        Network(), (torch.rand(1, 3, 8, 8), torch.tensor([2.0, 2.0])), path,
        input_names=["x", "factor"], dynamic_axes={"x": {2: "h", 3: "w"}}, exporter=request.param,
    )  # fmt: skip
    return path


# ---- What runs.


def test_nodes_with_the_library_run_as_kernels(exported: Path) -> None:
    report = examine(exported, run=True)
    assert (report.verdict, report.exit_status, report.findings) == ("runs", 0, [])
    ran = {item.op: (item.runs, item.provider, item.module) for item in report.nodes}
    assert ran["myops::Resize"] == ("kernel", "CPUExecutionProvider", "body.0")
    assert ran["myops::MyAdd"][0] == "kernel"
    assert sum(report.providers.values()) > 2


def test_nodes_without_the_library_run_as_function_bodies(exported: Path) -> None:
    report = examine(exported, run=True, myops_library=False)
    assert (report.verdict, report.exit_status) == ("runs", 0)
    assert {item.runs for item in report.nodes} == {"function body"}
    (finding,) = report.warnings
    assert finding.code == "function-body"
    assert "2 of 2 nodes" in finding.what
    assert "myops.ort.session(model)" in finding.fix
    assert any("PyTorch module body.0" in label for label in finding.nodes)


def branching(**graph: Any) -> onnx.ModelProto:
    """MyAdd in both branches of an If, called after the branches."""
    branches = {
        name: helper.make_graph(
            [node("MyAdd", "a b", f"{name}_y", domain="myops", name=name)], name, [],
            [helper.make_tensor_value_info(f"{name}_y", FLOAT, None)],
        ) for name in ("then_branch", "else_branch")
    }  # fmt: skip
    inputs = {**TWO} if graph else {**TWO, "p": (TensorProto.BOOL, [])}
    return model_of([node("If", "p", **branches)], inputs, **graph)


def test_nodes_in_branches_run_as_kernels() -> None:
    report = examine(branching(), run=True)
    assert report.verdict == "runs", report
    runs = {item.name: item.runs for item in report.nodes}
    assert runs == {"then_branch": "kernel", "else_branch": "kernel"}


def test_an_optimised_away_node_is_named() -> None:
    never = onnx.numpy_helper.from_array(np.array(False), "p")
    runs = {item.name: item.runs for item in examine(branching(initializer=[never])).nodes}
    assert runs == {"then_branch": "optimised away", "else_branch": "kernel"}
    with_body = branching(initializer=[never])
    with_body.functions.append(add_body())
    runs = {item.name: item.runs for item in examine(with_body, myops_library=False).nodes}
    assert runs == {"then_branch": "optimised away", "else_branch": "function body"}


def test_a_missing_provider_is_a_warning() -> None:
    report = examine(model_of([node("Add")], TWO), providers=["CUDAExecutionProvider"])
    (finding,) = report.findings
    assert (finding.code, finding.severity, report.exit_status) == (
        "provider-missing",
        "warning",
        0,
    )
    assert "onnxruntime-gpu" in finding.fix


def test_nodes_on_the_cpu_instead_of_the_provider_are_a_warning() -> None:
    asked = ["AzureExecutionProvider", "CPUExecutionProvider"]
    if asked[0] not in examine(None).environment["providers"]:
        pytest.skip("this onnxruntime has no second provider")
    report = examine(model_of([node("MyAdd", domain="myops")], TWO), providers=asked)
    (finding,) = report.findings
    assert finding.code == "node-on-cpu"
    assert "1 of 1 nodes run on the CPU, although AzureExecutionProvider" in finding.what
    assert finding.nodes == ["it (myops::MyAdd)"]


# ---- Running.


def test_a_failing_node_is_named_with_its_inputs(tmp_path: Path) -> None:
    """Flatten and a Linear of fixed size, run with an image of another size."""
    network = torch.nn.Sequential()
    network.add_module("stem", torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU()))
    network.add_module("head", torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(72, 4)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the export may say that other sizes fail
        model = myops.onnx.export(
            network, torch.rand(1, 1, 8, 8), exporter="torchscript", input_names=["x"],
            dynamic_axes={"x": {2: "h", 3: "w"}},
        )  # fmt: skip
    assert examine(model, run=True, dims={"h": 8, "w": 8}).verdict == "runs"
    report = examine(model, run=True, dims={"h": 9, "w": 9})
    assert report.verdict == "fails when it runs", report
    (finding,) = report.errors
    assert finding.code == "run-failed"
    assert "PyTorch module head.1" in finding.nodes[0]
    assert "What arrived" in finding.why
    assert "float32[1, 98]" in finding.why  # 2 channels of 7 x 7
    assert "Non-zero status code" in finding.message


def test_inputs_from_arrays_and_files_are_used(tmp_path: Path) -> None:
    model = model_of([node("MyAdd", domain="myops")], {"a": (FLOAT, ["n"]), "b": (FLOAT, ["m"])})
    np.save(tmp_path / "a.npy", np.ones(3, np.float32))
    (tmp_path / "text.npy").write_text("no array")
    assert examine(model, run=True).verdict == "runs"
    report = examine(model, inputs={"a": tmp_path / "a.npy"}, dims={"m": 3})
    assert report.verdict == "runs"
    report = examine(model, inputs={"a": tmp_path / "a.npy"}, dims={"m": 2})
    (finding,) = report.errors
    assert "my_add: b: got length 2 on axis 0" in finding.why
    assert "What arrived: a: float32[3], b: float32[2]" in finding.why
    report = examine(model, inputs={"a": np.ones((2, 2), np.float32)})
    assert "got 2 axes, expected 1" in report.errors[0].what
    for wrong, text in (
        ({"inputs": {"aa": np.ones(3)}}, "no input 'aa'. Did you mean 'a'"),
        ({"inputs": {"a": "nowhere.npy"}}, "nowhere.npy: no such file"),
        ({"inputs": {"a": str(tmp_path / "text.npy")}}, "cannot be read as arrays of NumPy"),
        ({"dims": {"k": 3}, "run": True}, "no open length 'k'"),
    ):
        with pytest.raises((ValueError, FileNotFoundError), match=text):
            examine(model, **wrong)


def test_nan_in_the_result_is_a_warning() -> None:
    report = examine(
        model_of(
            [node("Log", "a", "t"), node("Sqrt", "t", "t2", name="s"), node("Neg", "t2", name="n")],
            TWO,
        ),
        inputs={"a": -np.ones(2, "f")},
    )
    assert (report.verdict, report.warnings[0].code) == ("runs", "not-finite")


# ---- The environment.


def test_the_environment_is_reported() -> None:
    report = _doctor.doctor()
    facts = report.environment
    assert (report.verdict, report.exit_status, report.findings) == ("healthy", 0, [])
    assert torch.__version__.startswith(facts["packages"]["torch"])  # "+cu130" may be left out
    assert facts["packages"]["onnx"] == onnx.__version__
    assert facts["library"] == myops.ort.get_library_path()
    assert facts["kernel_runs"] is True
    assert "CPUExecutionProvider" in facts["providers"]
    assert facts["cpu"]["cores"] >= 1
    if Path("/proc/cpuinfo").is_file() and facts["machine"] == "x86_64":
        assert "sse2" in facts["cpu"]["features"]


def test_two_installed_onnxruntimes_are_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "onnxruntime_gpu-1.30.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: onnxruntime-gpu\nVersion: 1.30.0\n"
    )
    (info / "RECORD").write_text(
        "onnxruntime/__init__.py,,\nonnxruntime_gpu.dist-info/METADATA,,\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert environment.runtimes()["onnxruntime-gpu"] == "1.30.0"
    _, _, found = environment.examine(lambda text: None)
    (finding,) = found
    assert (finding.code, finding.severity) == ("onnxruntime-several", "warning")
    assert "onnxruntime-gpu 1.30.0" in finding.what
    assert "pip uninstall -y" in finding.fix


def test_a_broken_onnxruntime_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "onnxruntime"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('libcudart.so.13: cannot open')")
    monkeypatch.syspath_prepend(str(tmp_path))
    report = _doctor.doctor()
    assert (report.verdict, report.exit_status) == ("not examined", 2)
    assert report.errors[0].code == "onnxruntime-broken"
    assert "libcudart.so.13" in report.errors[0].message


def test_our_missing_library_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_libraries.OURS, "_folder", tmp_path)
    report = examine(None)
    assert report.errors[0].code == "myops-library-missing"
    assert "pip install -e ." in report.errors[0].fix
    assert report.exit_status == 1


@pytest.mark.parametrize("given", [
    "MYOPS_ISA=foo", "MYOPS_MAX_BYTES=abc", "MYOPS_VERBOSE=7", "MYOPS_STREAMING_STORES=x",
    "MYOPS_NUM_THREADS=0",
])  # fmt: skip
def test_a_wrong_environment_variable_is_named(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, value = given.split("=")
    monkeypatch.setenv(name, value)
    (finding,) = myops.ort.doctor().errors
    assert finding.code == "environment-variable"
    assert f'{name}: got "{value}", expected ' in finding.why
    assert "unset" in finding.fix


def test_a_wrong_number_of_threads_is_a_warning_beside_a_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MYOPS_NUM_THREADS", "many")
    report = examine(model_of([node("MyAdd", domain="myops")], TWO))
    assert report.verdict == "loads"
    assert [item.code for item in report.warnings] == ["environment-variable"]


def test_a_crash_while_running_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    original = process.run

    def dying(request: dict[str, Any], *args: Any) -> process.ChildOutcome:
        outcome = original(request, *args)
        if request["kind"] == "session":
            outcome.events = [e for e in outcome.events if e["stage"] not in ("ran", "end")]
            outcome.death = "a segmentation fault (SIGSEGV)"
        return outcome

    monkeypatch.setattr(process, "run", dying)
    report = examine(model_of([node("Add")], TWO), run=True)
    assert (report.verdict, report.exit_status) == ("fails when it runs", 1)
    assert "while running the model" in report.errors[0].what


def test_torch_is_not_imported() -> None:
    script = "import sys; sys.modules['torch'] = None; from myops.ort._doctor import doctor; "
    script += "assert doctor().exit_status == 0"
    subprocess.run([sys.executable, "-c", script], check=True)


# ---- The command line.


def command(*arguments: object) -> Any:
    return CliRunner().invoke(cli.app(), ["doctor", *map(str, arguments)])


def test_command_with_a_model_prints_the_report(tmp_path: Path) -> None:
    model = model_of([node("MyAdd", domain="myops")], TWO, functions=[add_body()])
    onnx.save(model, tmp_path / "add.onnx")
    run = [sys.executable, "-m", "myops", "doctor"]
    narrow = os.environ | {"COLUMNS": "80"}
    done = subprocess.run(
        [*run, tmp_path / "add.onnx", "--run"], capture_output=True, text=True, env=narrow
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("The model loads and runs in ONNX Runtime")
    assert "kernel" in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    done = subprocess.run([*run, tmp_path / "ad.onnx"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "Did you mean 'add.onnx'?" in " ".join(done.stderr.split())


def test_command_without_a_model_reports_the_environment() -> None:
    done = subprocess.run([sys.executable, "-m", "myops", "doctor"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "work together" in " ".join(done.stdout.split())
    assert f"onnxruntime {' ' * 12}" in done.stdout


def test_command_with_a_broken_model_fails(tmp_path: Path) -> None:
    onnx.save(model_of([node("Resise", "a - b", domain="myops")], TWO), tmp_path / "m.onnx")
    done = command(tmp_path / "m.onnx")
    assert done.exit_code == 1
    text = " ".join(done.stdout.split())
    for part in ("The model does not load:", "Did you mean 'Resize'?", "it (myops::Resise)",
                 "is not a registered function/op", "op-unknown"):  # fmt: skip
        assert part in text


def test_command_prints_json(tmp_path: Path) -> None:
    onnx.save(model_of([node("MyAdd", domain="myops")], TWO), tmp_path / "m.onnx")
    done = command(tmp_path / "m.onnx", "--no-myops", "--library", tmp_path / "no.so", "--json")
    assert done.exit_code == 1
    data = json.loads(done.stdout)
    assert data["verdict"] == "does not load"
    assert {item["code"] for item in data["findings"]} == {"library-missing", "domain-unknown"}
    assert data["environment"]["onnxruntime"]
    assert data["model"]["opsets"] == {"ai.onnx": 19, "myops": 1}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--dim", "n"], "expected NAME=LENGTH"),
        (["--dim", "n=x"], "expected a number"),
        (["--input", "a"], "expected NAME=FILE.npy"),
    ],
)
def test_command_refuses_wrong_options(tmp_path: Path, arguments: list[str], text: str) -> None:
    onnx.save(model_of([node("Add")], TWO), tmp_path / "m.onnx")
    done = command(tmp_path / "m.onnx", *arguments)
    assert isinstance(done.exception, ValueError)
    assert text in str(done.exception)
