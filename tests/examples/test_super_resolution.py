"""The super-resolution example, run as a user runs it, and the claims of its README."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import example_demos
import numpy as np
import onnx
import pytest
import torch
import warm
from example_demos import FOLDER, super_resolution
from PIL import Image

MODULES = ("data", "demo", "image_model", "model", "sheet", "train")
FACTORS = (2, 3, 4, 2.5)
LEAST_GAIN = 0.3  # dB over bicubic; the committed weights gain more at every factor


def run(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return warm.run(FOLDER / script, *arguments)


@pytest.fixture(scope="module")
def example() -> Iterator[dict[str, ModuleType]]:
    with example_demos.imported(FOLDER, MODULES) as modules:
        yield modules


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("dynamo", "torchscript")]


@pytest.fixture(scope="module", params=SLOW)
def demo(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The finished demo and its output folder, once per exporter."""
    if request.param == "dynamo":
        return super_resolution(tmp_path_factory)
    folder = tmp_path_factory.mktemp(request.param)
    return run("demo.py", "--output", folder, "--exporter", request.param), folder


def test_demo_succeeds_and_prints_every_factor(demo: Any) -> None:
    finished, _ = demo
    assert finished.returncode == 0, finished.stdout + finished.stderr
    for factor in FACTORS:
        assert re.search(rf"x{factor:g}\b", finished.stdout)
    assert "FAILED" not in finished.stdout


def test_demo_writes_one_model_file_with_the_factor_as_an_input(demo: Any) -> None:
    _, folder = demo
    names = ["super_resolution.onnx", "super_resolution_image.onnx"]  # nothing beside them
    assert sorted(path.name for path in folder.glob("*.onnx*")) == names
    graph = onnx.load(folder / "super_resolution.onnx").graph
    assert [value.name for value in graph.input] == ["picture", "scales"]
    assert [node.domain for node in graph.node if node.op_type == "Resize"] == ["myops"]


@pytest.mark.parametrize("factor", FACTORS)
def test_pictures_beat_bicubic(demo: Any, example: dict[str, ModuleType], factor: float) -> None:
    _, folder = demo
    data = example["data"]
    small, target = data.shrink(data.photograph(data.HELD_OUT), factor)
    np.testing.assert_array_equal(data.read(folder / f"x{factor:g}_small.png"), small)
    bicubic, ours = (data.read(folder / f"x{factor:g}_{way}.png") for way in ("bicubic", "ours"))
    assert data.psnr(ours, target) > data.psnr(bicubic, target) + LEAST_GAIN


def test_sheet_is_a_picture_of_some_size(demo: Any) -> None:
    with Image.open(demo[1] / "sheet.png") as sheet:
        assert min(sheet.size) > 800


def test_demo_fails_with_weights_that_do_not_beat_bicubic(
    example: dict[str, ModuleType], tmp_path: Path
) -> None:
    model = example["model"].load()
    torch.nn.init.constant_(model.conv3.bias, 0.1)  # every picture becomes too bright
    example["model"].save(model, tmp_path / "bright.npz")
    finished = run(
        "demo.py", "--weights", tmp_path / "bright.npz", "--output", tmp_path, "--factors", 2,
        "--exporter", "torchscript",
    )  # fmt: skip
    assert finished.returncode == 1, finished.stdout + finished.stderr
    assert "does not beat bicubic" in finished.stdout


def test_demo_takes_a_picture_and_factors_of_the_user(
    example: dict[str, ModuleType], tmp_path: Path
) -> None:
    picture = example["data"].photograph("coffee")[:200, :301]
    Image.fromarray(picture).save(tmp_path / "mine.png")
    finished = run(
        "demo.py", "--image", tmp_path / "mine.png", "--output", tmp_path,
        "--factors", 3.3, 1.7, "--crop", 10, 10, 60, "--target", "onnx",
        "--exporter", "torchscript",
    )  # fmt: skip
    assert finished.returncode == 0, finished.stdout + finished.stderr
    opset = onnx.load(tmp_path / "super_resolution.onnx").opset_import
    assert all(entry.domain != "myops" for entry in opset)
    # 60 rows by 3.3 are 197, not 198: float32, the type of the factor, holds a little less.
    assert example["data"].read(tmp_path / "x3.3_ours.png").shape == (197, 300, 3)


def test_difference_from_pytorch_is_reported(example: dict[str, ModuleType]) -> None:
    black = np.zeros((4, 4, 3), np.uint8)
    result = example["demo"].Result(2.0, black, black, black, black, 30.0, 31.0, 1e-2, 0.1)
    assert "differs from PyTorch" in "".join(result.faults(1e-5))


def test_readme_snippet_runs(demo: Any, tmp_path: Path) -> None:
    snippets = re.findall(r"```python\n(.*?)```", (FOLDER / "README.md").read_text(), re.S)
    snippet = "\n".join(snippets)
    build = tmp_path / "build"
    build.mkdir()
    (build / "super_resolution").symlink_to(demo[1])
    blocked = "import sys; sys.modules['torch'] = None\n"  # the text says: no PyTorch
    finished = subprocess.run(
        [sys.executable, "-c", blocked + snippet], cwd=tmp_path, capture_output=True, text=True
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    with Image.open(tmp_path / "enlarged.png") as enlarged:
        assert enlarged.size == (992, 660)
    with Image.open(tmp_path / "enlarged_file.png") as enlarged:
        assert enlarged.size == (510, 510)


def test_held_out_photograph_is_not_trained_on(example: dict[str, ModuleType]) -> None:
    data = example["data"]
    assert data.HELD_OUT not in data.TRAINING
    held_out = data.photograph(data.HELD_OUT)
    for name in data.TRAINING:
        picture = data.photograph(name)
        assert picture.dtype == np.uint8
        assert picture.ndim == 3
        assert picture.shape[2] == 3
        assert not np.array_equal(picture, held_out)


@pytest.mark.parametrize("factor", [1, 1.1, 1.3, 1.75, 2.2, 2.75, 3.3, 5, 6])
def test_factors_that_were_not_trained_on(example: dict[str, ModuleType], factor: float) -> None:
    data, model = example["data"], example["model"].load()
    small, target = data.shrink(data.photograph(data.HELD_OUT), factor)
    scales = data.to_scales(factor)
    with torch.no_grad():
        bicubic = model.enlarge(data.to_tensor(small), scales)
        ours = model.refine(bicubic, scales)
    bicubic, ours = (data.psnr(data.to_picture(x.numpy()), target) for x in (bicubic, ours))
    assert ours > bicubic + 0.2 if factor > 1 else ours == bicubic == float("inf")


def test_factors_of_height_and_width_may_differ(example: dict[str, ModuleType]) -> None:
    data, model = example["data"], example["model"].load()
    picture = data.photograph("cat")[:60, :60]
    enlarged = model(data.to_tensor(picture), torch.tensor([1.0, 1.0, 3.0, 1.5]))
    assert enlarged.shape == (1, 3, 180, 90)


@pytest.mark.parametrize("factor", [1, 1.5, 2, 2.5, 3, 3.3, 4, 7.77])
def test_shrunk_picture_enlarges_to_the_target_size(
    example: dict[str, ModuleType], factor: float
) -> None:
    data = example["data"]
    small, target = data.shrink(data.photograph("cat"), factor)
    enlarged = example["model"].load()(data.to_tensor(small), data.to_scales(factor))
    assert data.to_picture(enlarged.detach().numpy()).shape == target.shape


def test_shrink_does_not_alias_and_refuses_nonsense(example: dict[str, ModuleType]) -> None:
    shrink = example["data"].shrink
    stripes = np.zeros((60, 60, 3), np.uint8)
    stripes[:, ::2] = 255
    middle = shrink(stripes, 3)[0][:, 3:-3].astype(int)  # a plain cubic would keep the stripes
    assert abs(middle - 127.5).max() < 20
    for factor in (0.5, 61):
        with pytest.raises(ValueError, match="got factor"):
            shrink(stripes, factor)


def test_psnr(example: dict[str, ModuleType]) -> None:
    psnr = example["data"].psnr
    black = np.zeros((2, 2, 3), np.uint8)
    assert psnr(black, black) == float("inf")
    assert psnr(black, black + 255) == 0.0
    assert psnr(black + 1, black) == pytest.approx(48.1308, abs=1e-4)


def test_committed_weights_are_small_and_need_no_pickle(example: dict[str, ModuleType]) -> None:
    path = example["model"].WEIGHTS
    assert path.stat().st_size < 400 * 1024
    with np.load(path, allow_pickle=False) as arrays:
        assert all(arrays[name].dtype == np.float32 for name in arrays.files)


def test_training_lowers_the_error(example: dict[str, ModuleType]) -> None:
    train, model = example["train"], example["model"]
    torch.set_num_threads(1)
    photographs = train.Photographs((2.0, 3.0), patch=32, batch=8, seed=1)
    trained = train.train(photographs, steps=200, rate=1e-3, seed=1)
    errors = {"bicubic": 0.0, "untrained": 0.0, "trained": 0.0}
    for _, (factor, enlarged, original) in zip(range(40), photographs.batches(), strict=False):
        scales = example["data"].to_scales(factor)
        with torch.no_grad():
            for name, result in {
                "bicubic": enlarged,
                "untrained": model.SuperResolution().refine(enlarged, scales),
                "trained": trained.refine(enlarged, scales),
            }.items():
                errors[name] += (result - original).square().mean().item()
    assert errors["untrained"] == pytest.approx(errors["bicubic"], rel=0.05)
    assert errors["trained"] < 0.98 * errors["bicubic"]


def test_training_repeats_with_its_seed(example: dict[str, ModuleType]) -> None:
    train = example["train"]
    torch.set_num_threads(1)

    def weights(seed: int) -> torch.Tensor:
        photographs = train.Photographs((2.0,), patch=16, batch=2, seed=seed)
        return train.train(photographs, steps=3, rate=1e-3, seed=seed).conv1.weight

    assert torch.equal(weights(5), weights(5))
    assert not torch.equal(weights(5), weights(6))


def test_train_script_writes_weights(tmp_path: Path) -> None:
    output = tmp_path / "folder" / "weights.npz"
    finished = run(
        "train.py", "--steps", 2, "--batch", 2, "--patch", 16, "--threads", 1, "--output", output
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert output.is_file()
    assert "was not trained on" in finished.stdout
