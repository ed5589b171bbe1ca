"""Damaged .npy and .npz files, and damaged images, where arrays are read: an error that names the
file, whatever NumPy, zipfile or Pillow raises."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from myops._array_files import read_array, read_arrays
from myops.onnx.precision.samples import read_folder
from myops.ort import doctor


def damaged(data: bytes, count: int = 400) -> Iterator[bytes]:
    """Copies with some bytes changed, removed or repeated."""
    for seed in range(count):
        draw = random.Random(seed)
        made = bytearray(data)
        for _ in range(draw.choice([1, 1, 2, 4])):
            place = draw.randrange(len(made))
            how = draw.randrange(5)
            if how == 0:
                del made[place : place + draw.randrange(1, 9)]
            elif how == 1:
                made[place:place] = made[place : place + 9]
            else:
                made[place] = draw.choice([made[place] ^ 1 << draw.randrange(8), 57, 255, 0])
        yield bytes(made)


def saved(save: Callable[..., None], *arrays: Any, **named: Any) -> bytes:
    stream = io.BytesIO()
    save(stream, *arrays, **named)
    return stream.getvalue()


X = np.arange(12, dtype=np.float32).reshape(1, 3, 2, 2)


@pytest.mark.parametrize(("save", "read"), [
    (np.save, read_array), (np.savez, read_arrays), (np.savez_compressed, read_arrays),
])  # fmt: skip
def test_damage_is_refused(save: Any, read: Callable[..., Any], tmp_path: Path) -> None:
    whole = saved(save, X) if save is np.save else saved(save, x=X)
    path, refused = tmp_path / "x", []
    path.write_bytes(whole)
    read(path, "")
    for data in damaged(whole):
        path.write_bytes(data)
        try:
            read(path, "data: ")
        except ValueError as error:
            refused.append(str(error))
    assert len(refused) > 100
    assert all(text.startswith(f"data: {path}: ") for text in refused)


def test_a_header_that_asks_for_too_much_memory(tmp_path: Path) -> None:
    data = saved(np.save, np.zeros(0, np.uint8))
    assert b"(0,), }             " in data
    wide = data.replace(b"(0,), }             ", b"(90000000000000,), }")
    (tmp_path / "x.npy").write_bytes(wide)
    with pytest.raises(ValueError, match=r"x\.npy: cannot be read as arrays of NumPy"):
        read_array(tmp_path / "x.npy", "")


def test_the_other_kind_of_file(tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", X)
    np.savez(tmp_path / "named.npz", x=X)
    with pytest.raises(ValueError, match=r"named\.npz: got a \.npz file, expected \.npy"):
        read_array(tmp_path / "named.npz", "")
    with pytest.raises(ValueError, match=r"one\.npy: got a \.npy file, expected \.npz"):
        read_arrays(tmp_path / "one.npy", "")
    with pytest.raises(FileNotFoundError, match=r"^data: .*gone\.npz: no such file"):
        read_arrays(tmp_path / "gone.npz", "data: ")


def model() -> onnx.ModelProto:
    kind = TensorProto.FLOAT, ["n", 3, 2, 2]
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])], "test",
        [helper.make_tensor_value_info("x", *kind)], [helper.make_tensor_value_info("y", *kind)],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_what_reads_arrays_names_the_file(tmp_path: Path) -> None:
    whole = saved(np.savez, x=X)
    place = whole.index(X.tobytes())
    bad = whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
    (tmp_path / "x.npz").write_bytes(bad)
    with pytest.raises(ValueError, match=r"^data: .*x\.npz: cannot .* Bad CRC-32"):
        read_folder(model(), tmp_path)
    with pytest.raises(ValueError, match=r"^input 'x': .*x\.npz: cannot be read"):
        doctor(model(), inputs={"x": str(tmp_path / "x.npz")})


@pytest.mark.parametrize("kind", ["png", "jpeg", "bmp", "webp", "tiff"])
def test_damaged_images_are_refused(kind: str, tmp_path: Path) -> None:
    from PIL import Image

    stream = io.BytesIO()
    pixels = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    Image.fromarray(pixels).save(stream, kind)
    path, refused = tmp_path / f"x.{kind}", []
    for data in damaged(stream.getvalue(), 150):
        path.write_bytes(data)
        try:
            read_folder(model(), tmp_path)
        except ValueError as error:
            refused.append(str(error))
    assert len(refused) > 5
    assert all(text.startswith(f"data: {path}: ") for text in refused)
