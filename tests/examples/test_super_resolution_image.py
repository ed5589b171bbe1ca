"""The super-resolution model from picture file to picture file, against Pillow around the plain
model."""

from __future__ import annotations

import io
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
import warm
from example_demos import FOLDER, super_resolution
from PIL import Image
from test_super_resolution import example  # noqa: F401

import myops.onnx
import myops.ort

pytestmark = pytest.mark.slow  # test_super_resolution.py has the model in `make test`


@pytest.fixture(scope="module")
def files(
    example: Any,  # noqa: F811
    tmp_path_factory: pytest.TempPathFactory,
) -> Any:
    """Both models of the demo in sessions."""
    _, folder = super_resolution(tmp_path_factory)
    image_model, path = example["image_model"], folder / "super_resolution_image.onnx"
    return SimpleNamespace(
        path=path, network=example["model"].load(), module=image_model,
        session=image_model.session(path), data=example["data"],
        plain=myops.ort.session(folder / "super_resolution.onnx"),
    )  # fmt: skip


def encoded(picture: Image.Image, kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def small(width: int = 53, height: int = 38) -> Image.Image:
    import skimage.data

    return Image.fromarray(skimage.data.astronaut()).resize((width, height))


def transparent() -> Image.Image:
    picture = small()
    picture.putalpha(Image.fromarray(np.tile(np.arange(53, dtype=np.uint8) * 4, (38, 1))))
    return picture


EQUAL = {
    "PNG": lambda: encoded(small(), "PNG"),
    "grey PNG": lambda: encoded(small().convert("L"), "PNG"),
    "RGBA PNG": lambda: encoded(transparent(), "PNG"),
    "grey and alpha PNG": lambda: encoded(small().convert("LA"), "PNG"),
    "palette PNG": lambda: encoded(small().quantize(32), "PNG"),
    "black and white PNG": lambda: encoded(small().convert("1"), "PNG"),
    "odd sizes": lambda: encoded(small(31, 17), "PNG"),
    "one row": lambda: encoded(small(9, 1), "PNG"),
    "one pixel": lambda: encoded(small(1, 1), "PNG"),
    "JPEG 4:4:4": lambda: encoded(small(), "JPEG", quality=90, subsampling=0),
    "progressive JPEG 4:4:4": lambda: encoded(small(), "JPEG", subsampling=0, progressive=True),
    "grey JPEG": lambda: encoded(small().convert("L"), "JPEG"),
}


@pytest.mark.parametrize("name", EQUAL)
@pytest.mark.parametrize("factor", [2.5, 3.0])
def test_pixels_equal_those_of_pillow_around_the_model(
    files: Any, name: str, factor: float
) -> None:
    image = EQUAL[name]()
    png = files.module.enlarge(files.session, image, factor)
    assert png.startswith(b"\x89PNG")
    with Image.open(io.BytesIO(png)) as opened:
        assert opened.mode == "RGB"
        pixels = np.array(opened)
    source = np.array(Image.open(io.BytesIO(image)).convert("RGB"))
    assert pixels.shape == (int(source.shape[0] * factor), int(source.shape[1] * factor), 3)
    np.testing.assert_array_equal(pixels, files.module.by_hand(files.plain, image, factor))


@pytest.mark.parametrize(("exporter", "target"), [("torchscript", "myops"), ("dynamo", "onnx")])
def test_the_other_exporter_and_standard_operators_give_the_same(
    files: Any, tmp_path: Path, exporter: str, target: str
) -> None:
    files.module.export(files.network, tmp_path / "other.onnx", exporter, target)
    png = files.module.enlarge(files.module.session(tmp_path / "other.onnx"), EQUAL["PNG"](), 2.5)
    pixels = np.array(Image.open(io.BytesIO(png))).astype(int)
    expected = files.module.by_hand(files.plain, EQUAL["PNG"](), 2.5)
    # ONNX Runtime's own Resize rounds in another way.
    assert np.abs(pixels - expected).max() <= (0 if target == "myops" else 1)


def test_jpegs_with_subsampled_colour_differ_in_colour_only(files: Any) -> None:
    """Colour at half the size: Pillow interpolates it, DecodeImage does not."""
    image = encoded(small(200, 160), "JPEG", quality=90)  # 4:2:0 is Pillow's default
    png = files.module.enlarge(files.session, image, 2.0)
    pixels = np.array(Image.open(io.BytesIO(png))).astype(float)
    expected = files.module.by_hand(files.plain, image, 2.0).astype(float)
    difference = pixels - expected
    luminance = np.abs(difference @ [0.299, 0.587, 0.114])
    assert np.abs(difference).mean() < 1.5
    assert luminance.mean() < 0.5


def test_the_model_is_one_checked_file(files: Any) -> None:
    model = onnx.load(files.path)
    assert [item.name for item in model.graph.input] == ["image", "factor"]
    assert [item.name for item in model.graph.output] == ["png"]
    versions = [(item.domain, item.version) for item in model.opset_import]
    assert sorted(versions) == [("", 20), ("com.microsoft.extensions", 1), ("myops", 1)]
    assert [f.name for f in model.functions] == ["Resize"]  # runs without our library too
    myops.onnx.register_schemas()
    onnx.checker.check_model(model, full_check=True)


@pytest.mark.parametrize(
    ("image", "name"),
    [
        (b"", "NOT_AN_IMAGE"),
        (b"\x89PNG", "NOT_AN_IMAGE"),
        (b"hello, this is no picture", "NOT_AN_IMAGE"),
        (encoded(small(), "GIF"), "NOT_AN_IMAGE"),  # without the check, these end the process
        (encoded(small(), "BMP"), "NOT_AN_IMAGE"),
        (encoded(small(), "JPEG")[:-2], "NOT_AN_IMAGE"),  # without it, this never ends
        (encoded(small(), "PNG")[:600], "DAMAGED"),
        (encoded(small().convert("CMYK"), "JPEG"), "NOT_RGB"),
    ],
)
def test_files_that_are_no_pictures_are_refused(files: Any, image: bytes, name: str) -> None:
    with pytest.raises(Exception, match=getattr(files.module, name)):
        files.module.enlarge(files.session, image, 2.0)


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan"), float("inf"), 1e-4])
def test_a_wrong_factor_is_refused(files: Any, factor: float) -> None:
    with pytest.raises(Exception, match="resize: scales: got"):
        files.module.enlarge(files.session, EQUAL["PNG"](), factor)


def script(*arguments: object) -> subprocess.CompletedProcess[str]:
    return warm.run(FOLDER / "image_model.py", *arguments)


def test_script_enlarges_a_file(files: Any, tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(EQUAL["JPEG 4:4:4"]())
    options = ("--factor", 2.5, "--output", tmp_path / "big.png", "--model", files.path)
    done = script(tmp_path / "photo.jpg", *options)
    assert done.returncode == 0, done.stderr
    assert "132 x 95" in done.stdout
    expected = files.module.by_hand(files.plain, (tmp_path / "photo.jpg").read_bytes(), 2.5)
    np.testing.assert_array_equal(files.data.read(tmp_path / "big.png"), expected)


def test_script_refuses_damaged_files(files: Any, tmp_path: Path) -> None:
    damaged = bytearray(EQUAL["JPEG 4:4:4"]())
    damaged[160:170] = b"\xff" * 10
    for content, text in (
        (b"no picture", "a file that is not a picture"),
        (bytes(damaged), "a damaged picture"),
    ):
        (tmp_path / "broken.jpg").write_bytes(content)
        with pytest.raises(ValueError, match=text):
            files.module.check(tmp_path / "broken.jpg")
    done = script(tmp_path / "nowhere.jpg", "--model", files.path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
