"""`quantize`: the data for the calibration."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto
from precision_models import model, network, node, value

import myops
import myops.onnx

RANDOM = np.random.default_rng(3)
DATA = [{"x": RANDOM.standard_normal((1, 3, 12, 10)).astype(np.float32)} for _ in range(4)]


def test_folders_of_npy_and_npz_files(tmp_path: Path) -> None:
    for place, feed in enumerate(DATA):
        np.save(tmp_path / f"{place}.npy", feed["x"])
    (tmp_path / "notes.txt").write_text("not an input")
    whole = myops.onnx.quantize(network(), data=tmp_path)
    assert whole.calibrated == len(DATA)
    assert whole.losses == myops.onnx.quantize(network(), data=DATA).losses
    named = tmp_path / "named"
    (named / "x").mkdir(parents=True)
    np.save(named / "x" / "0.npy", DATA[0]["x"])
    assert myops.onnx.quantize(network(), data=named).calibrated == 1
    archives = tmp_path / "archives"
    archives.mkdir()
    np.savez(archives / "a.npz", x=DATA[0]["x"])
    np.savez(archives / "b.npz", x=DATA[1]["x"])
    assert myops.onnx.quantize(network(), data=archives).calibrated == 2


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.UINT8])
@pytest.mark.parametrize("last", [False, True])
def test_images_are_converted_to_the_input_of_the_model(
    last: bool, kind: int, tmp_path: Path
) -> None:
    """They get the size, the order of channels and the type of the model's input."""
    pictures = pytest.importorskip("PIL.Image")
    from myops.onnx.precision.samples import read_folder

    pixels = RANDOM.integers(0, 256, (9, 11, 3)).astype(np.uint8)
    pictures.fromarray(pixels).save(tmp_path / "a.png")
    shape = [1, "h", "w", 3] if last else [1, 3, "h", "w"]
    source = model([node("Identity", "x", "y")], [value("x", shape, kind)],
                   [value("y", None, kind)])  # fmt: skip
    (feed,) = read_folder(source, tmp_path)
    expected = pixels if last else pixels.transpose(2, 0, 1)
    if kind == TensorProto.FLOAT:
        np.testing.assert_allclose(feed["x"][0], expected / np.float32(255), rtol=1e-6)
        (shifted,) = read_folder(source, tmp_path, mean=[0.5], std=[0.25])
        np.testing.assert_allclose(shifted["x"], (feed["x"] - 0.5) / 0.25, rtol=1e-4, atol=1e-5)
    else:
        np.testing.assert_array_equal(feed["x"][0], expected)
    fixed = model([node("Identity", "x", "y")], [value("x", [1, 1, 4, 6])], [value("y")])
    (grey,) = read_folder(fixed, tmp_path)
    assert grey["x"].shape == (1, 1, 4, 6)


def test_wrong_data_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "a.npy").write_bytes(b"junk")
    (tmp_path / "pickled").mkdir()
    np.save(tmp_path / "pickled" / "a.npy", np.array([{}], object))
    (tmp_path / "image").mkdir()
    (tmp_path / "image" / "a.png").write_bytes(b"junk")
    for data, text in (
        (tmp_path / "none", "no such folder"), (tmp_path / "empty", "expected such files"),
        (tmp_path / "bad", "a.npy"), (tmp_path / "pickled", "a.npy"),
        (tmp_path / "image", "got no image"), ([], "got no inputs"), ([{}], "no array for"),
        ([{"x": np.ones((1, 4, 5, 5), np.float32)}], r"got shape \[1, 4, 5, 5\]"),
        ([{"x": np.full((1, 3, 5, 5), np.nan, np.float32)}], "got NaN in 75 of 75 elements"),
        (None, "got none"),
    ):  # fmt: skip
        with pytest.raises((ValueError, FileNotFoundError), match=text):
            myops.onnx.quantize(network(), data=data)  # type: ignore[arg-type]
    two = model([node("Add", "a b", "y")], [value("a", [1]), value("b", [1])], [value("y")])
    np.save(tmp_path / "empty" / "a.npy", np.ones(1, np.float32))
    with pytest.raises(ValueError, match="a folder for each"):
        myops.onnx.quantize(two, data=tmp_path / "empty")
