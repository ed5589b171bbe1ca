"""How myops.onnx.export writes files, and the command `myops export`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
import warm
from node_models import run_plain
from typer.testing import CliRunner

import myops
from myops import cli
from myops.onnx import export

EXPORTERS = ["dynamo", "torchscript"]


pytestmark = pytest.mark.usefixtures("no_warnings")


def names(model: onnx.ModelProto) -> list[str]:
    return [item.name for item in model.graph.input]


# -- files ------------------------------------------------------------------------------------


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_initializers_become_inputs(exporter: str) -> None:
    layer = torch.nn.Linear(4, 4)
    x = torch.rand(2, 4)
    model = export(layer, x, exporter=exporter, keep_initializers_as_inputs=True)
    weights = {item.name: item for item in model.graph.initializer}
    assert set(names(model)) == {"input", *weights}
    onnx.checker.check_model(model, full_check=True)
    plain = run_plain(model, {"input": x.numpy()})[0]
    np.testing.assert_allclose(plain, layer(x).detach().numpy(), atol=1e-6)
    bias = next(name for name in weights if list(weights[name].dims) == [4])
    got = run_plain(model, {"input": x.numpy(), bias: np.ones(4, np.float32)})[0]
    np.testing.assert_allclose(got, (x @ layer.weight.T + 1).detach().numpy(), atol=1e-6)


def test_external_data_is_written_beside_the_model(tmp_path: Path) -> None:
    layer = torch.nn.Linear(64, 64)
    x = torch.rand(2, 64)
    path = tmp_path / "model.onnx"
    for _ in range(2):  # the second time over the first
        returned = export(layer, x, path, exporter="torchscript", external_data=True)
    assert sorted(item.name for item in tmp_path.iterdir()) == ["model.onnx", "model.onnx.data"]
    assert path.stat().st_size < 64 * 64 * 4 <= (tmp_path / "model.onnx.data").stat().st_size
    assert (tmp_path / "model.onnx.data").stat().st_size < 2 * 64 * 64 * 4
    onnx.checker.check_model(str(path), full_check=True)
    for model in (returned, str(path)):
        (got,) = myops.ort.session(model).run(None, {"input": x.numpy()})
        np.testing.assert_allclose(got, layer(x).detach().numpy(), atol=1e-5)


def test_unwritable_targets_are_refused(tmp_path: Path) -> None:
    x = torch.rand(2, 4)
    with pytest.raises(FileNotFoundError, match=r"no such folder: .*nowhere"):
        export(torch.nn.Identity(), x, tmp_path / "nowhere" / "model.onnx")
    with pytest.raises(TypeError, match="f: got int, expected a path or a file object"):
        export(torch.nn.Identity(), x, 3)  # type: ignore[arg-type]
    with (tmp_path / "m").open("wb") as stream, pytest.raises(ValueError, match="expected a path"):
        export(torch.nn.Identity(), x, stream, external_data=True)


# -- the command ------------------------------------------------------------------------------

SOURCE = """
import torch, myops

class Enlarge(torch.nn.Module):
    def forward(self, image, factor):
        return myops.interpolate(image, scale_factor=factor, mode="bicubic")

class Frozen(torch.nn.Module):
    def forward(self, image, factor):
        return torch.nn.functional.interpolate(image, scale_factor=factor.item())

good = Enlarge(), (torch.rand(2, 3, 8, 8), torch.tensor(2.0))

def bad():
    return Frozen(), (torch.rand(2, 3, 8, 8), torch.tensor(2.0))
"""


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "model.py").write_text(SOURCE)
    target, output, *options = arguments
    paths = [str(folder / target), str(folder / output)]
    return warm.run("-m", "myops", "export", *paths, *options)


def test_command_writes_the_model(tmp_path: Path) -> None:
    done = command(
        tmp_path, "model.py:good", "out.onnx", "--exporter", "torchscript", "--opset", "18",
        "--dynamic", "image:0=batch,2,3", "--external-data",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "image ['batch', 3, 'image_2', 'image_3'], factor []" in " ".join(done.stdout.split())
    assert "opset 18" in done.stdout
    assert "1 myops::Resize" in done.stdout
    assert onnx.load(tmp_path / "out.onnx").opset_import[0].version == 18


def test_command_reports_a_frozen_input(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(SOURCE)
    line = ["export", f"{tmp_path}/model.py:bad", f"{tmp_path}/out.onnx", "--json"]
    done = CliRunner().invoke(cli.app(), [*line, "--exporter", "torchscript"])
    assert done.exit_code == 1, done.output
    result = json.loads(done.stdout)
    assert result["check"] == "frozen_input"
    assert result["output"] is None
    assert not (tmp_path / "out.onnx").exists()


def test_command_refuses_wrong_axes() -> None:
    from myops.cli.export import _axes

    assert _axes("image:0=batch,-1") == ("image", {0: "batch", -1: None})
    for text in ("image", ":0", "image:", "image:a"):
        with pytest.raises(ValueError, match="expected INPUT:AXES"):
            _axes(text)
