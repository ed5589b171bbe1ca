"""Pictures: how each kind of file is converted, and which are refused."""

from __future__ import annotations

import io
import os
from pathlib import Path

import batch_models as models
import numpy as np
import pytest
from PIL import Image

import myops.batch


@pytest.fixture
def photos(tmp_path: Path, rng: np.random.Generator) -> Path:
    folder = tmp_path / "photos"
    (folder / "a b").mkdir(parents=True)
    (folder / "ü").mkdir()
    for place, name in enumerate(["one.png", "a b/one.png", "ü/zwei drei.png", "x.tif", "x.png"]):
        shape = (5 + place % 2, 7, 3)
        Image.fromarray(rng.integers(0, 256, shape, np.uint8)).save(folder / name)
    return folder


def pixels(path: Path, mode: str = "RGB") -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(image.convert(mode))


def test_a_folder_of_pictures_keeps_its_names(photos: Path, tmp_path: Path) -> None:
    """Names are kept with another suffix; files that differ in their suffix only keep it."""
    (photos / ".hidden.png").write_bytes(b"")
    (photos / "notes.txt").write_text("no picture")
    result = myops.batch.run(models.negative(tmp_path), photos, tmp_path / "out", range=(0, 1))
    assert (result.status, result.rows, result.done, result.format) == (0, 5, 5, "png")
    expected = {"one.png": "one.png", "a b/one.png": "a b/one.png", "x.tif": "x.tif.png",
                "ü/zwei drei.png": "ü/zwei drei.png", "x.png": "x.png.png"}  # fmt: skip
    assert set(models.outputs_of(tmp_path / "out")) == set(expected.values())
    for source, made in expected.items():
        np.testing.assert_array_equal(
            pixels(tmp_path / "out" / made), 255 - pixels(photos / source)
        )


def test_files_that_are_no_pictures_fail_alone(photos: Path, tmp_path: Path) -> None:
    """Each fails with a reason, and the others succeed. A link counts as its target."""
    good = (photos / "one.png").read_bytes()
    (photos / "cut.png").write_bytes(good[: len(good) // 2])
    (photos / "empty.jpg").write_bytes(b"")
    (photos / "text.jpg").write_text("hello")
    (photos / "link.png").symlink_to(photos / "one.png")
    (photos / "nowhere.png").symlink_to(tmp_path / "gone")
    (photos / "loop").symlink_to(photos)
    os.mkfifo(photos / "pipe.png")  # opening it would block
    # 179 million pixels in a small file.
    Image.new("1", (13400, 13400)).save(photos / "huge.png", compress_level=1)
    frames = [Image.new("L", (4, 4), value) for value in (0, 255)]
    frames[0].save(photos / "moving.gif", save_all=True, append_images=frames[1:])
    Image.fromarray(np.arange(6, dtype=np.int32)[None]).save(photos / "deep.tif")
    result = myops.batch.run(models.negative(tmp_path), photos, tmp_path / "out", range=(0, 1))
    assert (result.status, result.done, result.failed) == (1, 6, 8)
    reasons = models.failures(result)
    assert set(reasons) == {"cut.png", "empty.jpg", "text.jpg", "nowhere.png", "moving.gif",
                            "pipe.png", "huge.png", "deep.tif"}  # fmt: skip
    assert "damaged" in reasons["cut.png"]
    assert "empty file" in reasons["empty.jpg"]
    assert "not a picture" in reasons["text.jpg"]
    assert "No such file" in reasons["nowhere.png"]
    assert "no regular file" in reasons["pipe.png"]
    assert "more than 178956970 pixels" in reasons["huge.png"]
    assert "2 pictures" in reasons["moving.gif"]
    assert "32 bits a pixel" in reasons["deep.tif"]
    assert (tmp_path / "out" / "link.png").exists()


GREY = np.arange(20, dtype=np.uint8).reshape(4, 5) * 12
KINDS = {
    "grey": (Image.fromarray(GREY), "png"),
    "black and white": (Image.fromarray(GREY > 99), "png"),
    "palette": (Image.fromarray(np.stack([GREY] * 3, 2)).quantize(8), "png"),
    "alpha": (Image.fromarray(np.stack([GREY, GREY, GREY, GREY[::-1]], 2)), "png"),
    "cmyk": (Image.fromarray(np.stack([GREY] * 4, 2), "CMYK"), "tif"),
    "grey with alpha": (Image.fromarray(GREY).convert("LA"), "png"),
}


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_colour_modes_are_converted_as_by_pillow(kind: str, channels: int, tmp_path: Path) -> None:
    """Colours equal those of Pillow's conversion."""
    image, ending = KINDS[kind]
    path = tmp_path / f"a.{ending}"
    image.save(path)
    model = models.identity(tmp_path, models.UINT8, ("h", "w", channels))
    result = myops.batch.run(model, path, tmp_path / "out")
    assert result.status == 0, models.failures(result)
    mode = {1: "L", 3: "RGB", 4: "RGBA"}[channels]
    with Image.open(path) as image:
        expected = np.asarray(image.convert(mode))
    with Image.open(tmp_path / "out" / "a.png") as made:
        assert made.mode == mode
        np.testing.assert_array_equal(np.asarray(made), expected)


@pytest.mark.parametrize(("dtype", "white"), [("uint8", 255), ("uint16", 65535), ("float", 1.0)])
def test_sixteen_bit_pictures_keep_their_bits(dtype: str, white: float, tmp_path: Path) -> None:
    """16 bits stay 16 bits if the model takes them, otherwise they are rounded, not truncated, to
    8."""
    deep = np.array([[0, 128, 129, 40000], [65535, 257, 30000, 1]], np.uint16)
    Image.fromarray(deep).save(tmp_path / "deep.png")
    kind = {"uint8": models.UINT8, "uint16": models.TensorProto.UINT16, "float": models.FLOAT}
    model = models.identity(tmp_path, kind[dtype], ("h", "w", 1))
    myops.batch.run(model, tmp_path / "deep.png", tmp_path / "out", format="npz",
                    range=(0, 1) if dtype == "float" else None)  # fmt: skip
    with np.load(tmp_path / "out" / "deep.npz") as arrays:
        got = arrays["y"][:, :, 0]
    expected = deep.astype(np.float64) / 65535 * white
    np.testing.assert_allclose(got, expected if dtype == "float" else np.rint(expected), rtol=1e-6)


def test_orientation_in_exif_is_applied(tmp_path: Path) -> None:
    image = Image.fromarray(GREY)
    tags = image.getexif()
    tags[0x0112] = 6  # turn by 90 degrees
    image.save(tmp_path / "side.png", exif=tags)
    model = models.identity(tmp_path, models.UINT8, ("h", "w", 1))
    myops.batch.run(model, tmp_path / "side.png", tmp_path / "out")
    np.testing.assert_array_equal(pixels(tmp_path / "out" / "side.png", "L"), np.rot90(GREY, -1))


@pytest.mark.parametrize(("shape", "said", "message"), [
    ((1, 3, "h", "w"), {}, "does not say what black and white are; pass range="),
    (("N", "c", "h", "w"), {"range": (0, 1)}, "axis 1 nor axis 3 has the length of channels"),
    ((1, 3, "h", 3), {"range": (0, 1)}, "could be the channels; pass layout='nchw'"),
    ((1, 3, "h", "w"), {"range": (0, 1), "layout": "hwc"}, "expected one of 4 letters"),
    ((1, 2, "h", "w"), {"range": (0, 1), "layout": "nchw"}, "got 2 channels"),
    ((1, 3, "h", "w"), {"range": (0, 1), "mean": (1, 2), "std": (1, 2)}, "mean: got 2 numbers"),
    ((1, 3, "h", "w"), {"range": (1, 0)}, "range: got"),
    ((7,), {}, "which does not say how it holds a picture"),
])  # fmt: skip
def test_ambiguous_inputs_are_refused(
    shape: tuple[int | str, ...], said: dict, message: str, photos: Path, tmp_path: Path
) -> None:
    model = models.negative(tmp_path, shape)
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        myops.batch.run(model, photos, tmp_path / "out", **said)
    assert not (tmp_path / "out").exists()


def test_pictures_are_resized_to_a_fixed_input_size(photos: Path, tmp_path: Path) -> None:
    model = models.negative(tmp_path, (1, 3, 5, 7))
    result = myops.batch.run(model, photos, tmp_path / "out", range=(0, 1))
    assert (result.done, result.failed) == (3, 2)
    assert all("got a picture of 7 x 6, expected 7 x 5" in item and item.count("resize") == 1
               for item in models.failures(result).values())  # fmt: skip
    result = myops.batch.run(model, photos, tmp_path / "all", range=(0, 1), resize="bicubic")
    assert result.done == 5


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("limits", [(0, 1), (0, 255), (-1, 1)])
def test_range_mean_and_std_are_applied(
    layout: str, limits: tuple[float, float], photos: Path, tmp_path: Path
) -> None:
    """The tensor that the model gets, against arithmetic in float64."""
    shape = ("N", 3, "h", "w") if layout == "nchw" else ("N", "h", "w", 3)
    model = models.identity(tmp_path, models.FLOAT, shape)
    mean, std = (0.4, 0.5, 0.6), (0.2, 0.3, 0.4)
    myops.batch.run(model, photos / "one.png", tmp_path / "out", range=limits, mean=mean, std=std,
                    format="npy")  # fmt: skip
    got = np.load(tmp_path / "out" / "one.npy")
    low, high = limits
    value = pixels(photos / "one.png").astype(np.float64) / 255 * (high - low) + low
    expected = (value - np.array(mean)) / np.array(std)
    expected = expected.transpose(2, 0, 1) if layout == "nchw" else expected
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_bytes_of_files_are_passed_to_string_inputs(photos: Path, tmp_path: Path) -> None:
    model = models.identity(tmp_path, models.UINT8, ("bytes",))
    result = myops.batch.run(model, photos / "*.png", tmp_path / "out")
    assert (result.format, result.done) == ("bytes", 2)
    assert (tmp_path / "out" / "one.png").read_bytes() == (photos / "one.png").read_bytes()


def test_two_input_folders_and_two_outputs(tmp_path: Path, rng: np.random.Generator) -> None:
    """Files are paired by their names; a missing one is named before the run starts."""
    from onnx import helper

    nodes = [helper.make_node("Max", ["left", "right"], ["more"]),
             helper.make_node("Min", ["left", "right"], ["less"])]  # fmt: skip
    kind = (models.UINT8, ("N", "h", "w", 3))
    model = models.save(tmp_path / "two.onnx", nodes, {"left": kind, "right": kind},
                        {"more": kind, "less": kind})  # fmt: skip
    sides = {}
    for side, ending in (("left", "png"), ("right", "bmp")):
        (tmp_path / side).mkdir()
        for name in "ab":
            sides[side, name] = rng.integers(0, 256, (3, 4, 3), np.uint8)
            Image.fromarray(sides[side, name]).save(tmp_path / side / f"{name}.{ending}")
    source = {side: str(tmp_path / side / "*") for side in ("left", "right")}
    result = myops.batch.run(model, source, tmp_path / "out")
    assert set(models.outputs_of(tmp_path / "out")) == {
        f"{name}.{output}.png" for name in "ab" for output in ("more", "less")
    }
    for name in "ab":
        expected = np.maximum(sides["left", name], sides["right", name])
        np.testing.assert_array_equal(pixels(tmp_path / "out" / f"{name}.more.png"), expected)
    assert result.done == 2
    (tmp_path / "right" / "b.bmp").unlink()
    with pytest.raises(ValueError, match="no file for 'right' that goes with"):
        myops.batch.run(model, source, tmp_path / "again")
    with pytest.raises(ValueError, match="expected files for each of them by name"):
        myops.batch.run(model, tmp_path / "left", tmp_path / "again")


def test_pixels_outside_of_the_range_are_clipped(tmp_path: Path) -> None:
    """They are clipped and rounded to nearest; NaN is an error."""
    from myops.batch import _pixels

    said = _pixels.PixelSettings(range=(0.0, 1.0))
    values = np.float32([[-3, 0.5, 2, 0.1234]])
    with Image.open(io.BytesIO(_pixels.encode(values, "hw", said, "png"))) as image:
        assert np.asarray(image).tolist() == [[0, 128, 255, 31]]
    with pytest.raises(ValueError, match="NaN"):
        _pixels.encode(np.float32([[np.nan]]), "hw", said, "png")
