"""The deformable-digits example, run as a user runs it, and the claims of its README."""

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
from PIL import Image

FOLDER = Path(__file__).parents[2] / "examples" / "deformable_digits"
MODULES = ("data", "demo", "model", "sampling", "train")
EXPORTERS = ("dynamo", "torchscript")


def run(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return warm.run(FOLDER / script, *arguments)


@pytest.fixture(scope="module")
def example() -> Iterator[dict[str, ModuleType]]:
    with example_demos.imported(FOLDER, MODULES) as modules:
        yield modules


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The finished demo and its output folder."""
    folder = tmp_path_factory.mktemp("demo")
    return run("demo.py", "--output", folder), folder


def test_demo_succeeds(demo: Any) -> None:
    finished, _ = demo
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "FAILED" not in finished.stdout
    for exporter in EXPORTERS:
        assert re.search(rf"{exporter} .* 0 .*e-", finished.stdout)  # no answer differs


def test_deformable_beats_plain_and_has_no_more_weights_than_the_wider(demo: Any) -> None:
    rows = re.findall(r"│ (\w.*?) +│ +(\d+) │ +([\d.]+)% │ +(\d+) │", demo[0].stdout)
    weights = {name: int(count) for name, count, _, _ in rows}
    right = {name: float(share) for name, _, share, _ in rows}
    assert set(right) == {"plain", "plain, wider", "deformable"}
    assert weights["plain, wider"] >= weights["deformable"]
    assert right["deformable"] > right["plain"] + 2
    assert right["deformable"] > right["plain, wider"] + 1


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_demo_exports_both_layers_for_any_number_of_pictures(demo: Any, exporter: str) -> None:
    graph = onnx.load(demo[1] / f"digits_{exporter}.onnx").graph
    nodes = [node for node in graph.node if node.op_type == "DeformConv"]
    assert [node.domain for node in nodes] == ["myops", "myops"]
    (pictures,) = graph.input
    assert pictures.type.tensor_type.shape.dim[0].dim_param


def test_demo_draws_the_picture(demo: Any) -> None:
    with Image.open(demo[1] / "sampling.png") as picture:
        assert min(picture.size) > 800
        assert len(picture.convert("RGB").getcolors(2**24)) > 100  # more than empty axes


def test_demo_fails_with_an_untrained_network(
    example: dict[str, ModuleType],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    networks = example["model"].load()
    torch.nn.init.zeros_(networks["deformable"].scores.weight)
    example["model"].save(networks, tmp_path / "guess.npz")
    arguments = ("--weights", tmp_path / "guess.npz", "--output", tmp_path, "--copies", 1)
    command = ["demo.py", *map(str, arguments), "--exporters", "dynamo"]
    monkeypatch.setattr(sys, "argv", [*command, "--target", "onnx"])
    assert example["demo"].main() == 1
    printed = capsys.readouterr().out
    assert "does not beat plain" in printed
    assert "differ from" not in printed
    model = onnx.load(tmp_path / "digits_dynamo.onnx")
    assert all(entry.domain != "myops" for entry in model.opset_import)


def test_demo_reports_what_differs_from_pytorch(example: dict[str, ModuleType]) -> None:
    demo = example["demo"]
    measured = [demo.Measured(name, 1, None, right) for name, right in (("a", 0.1), ("b", 0.2))]
    good = demo.Run("dynamo", Path("x"), 0.9, 0, 1e-6, 1.0)
    assert demo.faults_of(measured, [good]) == []
    for run, words in {
        demo.Run("dynamo", Path("x"), 0.9, 3, 1e-6, 1.0): "3 answers differ",
        demo.Run("dynamo", Path("x"), 0.9, 0, float("nan"), 1.0): "scores differ",
    }.items():
        (fault,) = demo.faults_of(measured, [run])
        assert words in fault


def test_held_out_digits_are_not_trained_on(example: dict[str, ModuleType]) -> None:
    train, held_out = example["data"].split()
    assert (len(train.labels), len(held_out.labels)) == (1200, 597)
    seen = {image.numpy().tobytes() for image in train.images}
    assert not any(image.numpy().tobytes() in seen for image in held_out.images)
    assert torch.equal(held_out.images, example["data"].split()[1].images)


def test_place_at_rest_is_a_plain_enlargement(example: dict[str, ModuleType]) -> None:
    images = torch.rand(3, 1, 8, 8)
    zero = torch.zeros(3)
    placed = example["data"].place(images, zero + 28, zero, torch.zeros(3, 2))
    enlarged = torch.nn.functional.interpolate(images, (28, 28), mode="bicubic").clamp(0, 1)
    inner = (..., slice(6, -6), slice(6, -6))  # at the rim, interpolate repeats the last pixel
    torch.testing.assert_close(placed[inner], enlarged[inner], atol=1e-5, rtol=0)


def test_place_scales_turns_and_moves(example: dict[str, ModuleType]) -> None:
    spot = torch.zeros(1, 1, 8, 8)
    spot[..., 3:5, 6:] = 1  # on the right: 3 of its own pixels from the middle
    for side, degrees, centre, expected in (
        (16.0, 0.0, (0.0, 0.0), (6.0, 0.0)),
        (8.0, 0.0, (0.0, 0.0), (3.0, 0.0)),
        (16.0, 90.0, (0.0, 0.0), (0.0, 6.0)),  # clockwise: to the bottom
        (16.0, -90.0, (2.0, 1.0), (2.0, -5.0)),
    ):
        picture = example["data"].place(
            spot, torch.tensor([side]), torch.tensor([degrees]), torch.tensor([centre])
        )[0, 0]
        pixel = torch.arange(28) - 13.5
        middle = torch.stack([(picture.sum(axis) * pixel).sum() for axis in (0, 1)])
        torch.testing.assert_close(
            middle / picture.sum(), torch.tensor(expected), atol=0.15, rtol=0
        )


def test_scattered_pictures_repeat_with_their_seed(example: dict[str, ModuleType]) -> None:
    images = example["data"].split()[0].images[:20]

    def pictures(seed: int) -> torch.Tensor:
        return example["data"].scatter(images, torch.Generator().manual_seed(seed))

    assert torch.equal(pictures(1), pictures(1))
    assert not torch.equal(pictures(1), pictures(2))
    assert pictures(1).shape == (20, 1, 28, 28)


def test_picture_shows_the_taps_that_the_layer_uses(example: dict[str, ModuleType]) -> None:
    """Sampling by hand at the drawn positions gives what the layer gives."""
    network = example["model"].load()["deformable"]
    features = torch.rand(1, 24, 14, 14)
    with torch.no_grad():
        expected = network.conv3(features)[0]
        taps = example["sampling"].taps_of(network.conv3, features)
        grid = (taps.moved.flip(-1) * 2 + 1) / 14 - 1  # x, y from -1 to 1
        samples = torch.nn.functional.grid_sample(
            features, grid.reshape(1, 49, 9, 2), align_corners=False
        )[0]
        columns = (samples * taps.mask.reshape(49, 9)).permute(0, 2, 1).reshape(24 * 9, 49)
        found = (network.conv3.weight.reshape(32, -1) @ columns).reshape(32, 7, 7)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def test_committed_weights_are_small_and_need_no_pickle(example: dict[str, ModuleType]) -> None:
    path = example["model"].WEIGHTS
    assert path.stat().st_size < 400 * 1024
    with np.load(path, allow_pickle=False) as arrays:
        assert {arrays[name].dtype for name in arrays.files} <= {np.dtype("f4"), np.dtype("i8")}


@pytest.mark.parametrize("name", ["plain", "deformable"])
def test_training_lowers_the_loss_and_repeats(example: dict[str, ModuleType], name: str) -> None:
    torch.set_num_threads(1)
    train, digits = example["train"], example["data"].split()[0]
    few = example["data"].Digits(digits.images[:192], digits.labels[:192])

    def losses(seed: int) -> list[float]:
        found: list[float] = []
        train.train(name, few, train.Recipe(epochs=6), seed, lambda loss: found.append(loss))
        return found

    first = losses(3)
    assert first[-1] < first[0] - 0.1
    assert losses(3) == first
    assert losses(4) != first


def test_train_script_writes_weights(example: dict[str, ModuleType], tmp_path: Path) -> None:
    output = tmp_path / "folder" / "digits.npz"
    finished = run("train.py", "--epochs", 1, "--batch", 256, "--threads", 1, "--output", output)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "not trained on" in finished.stdout
    assert set(example["model"].load(output)) == {"plain", "plain, wider", "deformable"}
