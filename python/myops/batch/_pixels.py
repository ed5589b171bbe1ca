"""Pictures as tensors, and tensors as pictures.

Everything follows from the graph or from the arguments; nothing about pixels is guessed. A rank of
4 is a batch of pictures, 3 one picture, 2 one grey picture. The axis whose fixed length is 1, 3 or
4 contains the channels (grey, RGB, RGBA). Integers of 8 and 16 bits use their whole range; the
range of floats must be given.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

MODES = {1: "L", 3: "RGB", 4: "RGBA"}
LAYOUTS = ("nchw", "nhwc", "chw", "hwc", "hw")
FORMATS = {"png": "PNG", "jpg": "JPEG", "jpeg": "JPEG", "webp": "WEBP", "bmp": "BMP", "tif": "TIFF"}
FILTERS = ("nearest", "bilinear", "bicubic", "lanczos")
_FLOATS = ("float16", "float32", "float64")
_FRAMES = ("MPO",)  # of cameras: the picture, then smaller copies of it


@dataclass(frozen=True)
class PixelSettings:
    """The arguments about pixels.

    layout: One of LAYOUTS; "": from the graph.
    channels: 1, 3 or 4; 0: from the graph.
    range: The values of black and white in floats, such as (0.0, 1.0).
    output_range: The same for outputs; None: as `range`.
    mean, std: Applied after that, for each channel: (value - mean) / std.
    resize: Filter for resizing pictures to the size in the graph; "": other sizes are refused.
    """

    layout: str = ""
    channels: int = 0
    range: tuple[float, float] | None = None
    output_range: tuple[float, float] | None = None
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    resize: str = ""


@dataclass(frozen=True)
class Layout:
    """The form of a picture in a tensor.

    axes: "nchw", "nhwc", "chw", "hwc" or "hw".
    channels: 1, 3 or 4.
    height, width: The size in the graph; None: any.
    dtype: The NumPy dtype.
    """

    axes: str
    channels: int
    height: int | None
    width: int | None
    dtype: str


def pillow() -> Any:
    """Pillow's package, or ImportError that says how to get it."""
    try:
        import PIL.Image
        import PIL.ImageOps
    except ImportError as error:
        raise ImportError(
            "pictures need the package pillow, which is not installed: pip install pillow"
        ) from error
    return PIL


def layout_of(name: str, shape: Sequence[Any] | None, dtype: str, said: PixelSettings) -> Layout:
    """The form of pictures in an input or output of the graph.

    Args:
        name: Its name in messages, such as "input 'x'".
        shape: Lengths; a length that is no int is dynamic. None: unknown.
        dtype: The NumPy dtype.

    Raises:
        ValueError: Graph and arguments leave it open, or contradict each other.
    """
    if dtype not in ("uint8", "uint16", *_FLOATS):
        raise ValueError(f"{name}: got {dtype}, expected uint8, uint16 or floats for a picture")
    lengths = [item if isinstance(item, int) else None for item in shape or ()]
    axes = said.layout or _axes(name, shape, lengths)
    if shape is not None and len(axes) != len(lengths):
        raise ValueError(
            f"layout: got {axes!r}, expected one of {len(lengths)} letters for {name}, whose "
            f"shape is {list(shape)}"
        )
    place = dict(zip(axes, lengths or [None] * len(axes), strict=True))
    fixed = 1 if "c" not in axes else place["c"]
    channels = fixed or said.channels
    if said.channels and channels != said.channels:
        raise ValueError(f"channels: got {said.channels}, expected {channels}, as {name} has them")
    if channels not in MODES:
        raise ValueError(
            f"{name}: got {fixed or 'an open number of'} channels, expected 1 (grey), 3 (RGB) or "
            "4 (RGBA); pass the number with channels=" if not fixed else
            f"{name}: got {fixed} channels, expected 1 (grey), 3 (RGB) or 4 (RGBA)"
        )  # fmt: skip
    return Layout(axes, channels, place["h"], place["w"], dtype)


def _axes(name: str, shape: Sequence[Any] | None, lengths: Sequence[int | None]) -> str:
    rank = len(lengths)
    if shape is None or rank not in (2, 3, 4):
        raise ValueError(
            f"{name}: got {'no shape' if shape is None else f'shape {list(shape)}'} in the graph, "
            "which does not say how it holds a picture; expected layout=, one of "
            f"{', '.join(LAYOUTS)}"
        )
    if rank == 2:
        return "hw"
    first, last = lengths[rank - 3] in MODES, lengths[rank - 1] in MODES
    if first == last:
        what = "could be the channels" if first else "has the length of channels (1, 3 or 4)"
        raise ValueError(
            f"{name}: got shape {list(shape)}, where axis {rank - 3} {'and' if first else 'nor'} "
            f"axis {rank - 1} {what}; pass layout={'nchw' if rank == 4 else 'chw'!r} or "
            f"layout={'nhwc' if rank == 4 else 'hwc'!r}"
        )
    return ("n" if rank == 4 else "") + ("chw" if first else "hwc")


def check_range(name: str, layout: Layout, given: tuple[float, float] | None, option: str) -> None:
    """Raises ValueError if pixels are floats and no range was given."""
    if layout.dtype in _FLOATS and given is None:
        raise ValueError(
            f"{name}: got {layout.dtype}, which does not say what black and white are; pass "
            f"{option}=(0, 1), {option}=(0, 255) or {option}=(-1, 1)"
        )


def decode(data: bytes, layout: Layout, said: PixelSettings) -> np.ndarray:
    """The bytes of a picture file as the graph's tensor, with a batch axis of 1 if it has one.

    The rotation in the metadata is applied. Alpha is dropped if the graph has no channel for it,
    and opaque if the file has none. 16 bits stay 16 bits in floats and uint16.

    Raises:
        ValueError: It is no picture, damaged, an animation, or of another size.
    """
    image = _opened(data)
    if (layout.height or image.height, layout.width or image.width) != (image.height, image.width):
        if not said.resize:
            raise ValueError(
                f"got a picture of {image.width} x {image.height}, expected "
                f"{layout.width or 'any width'} x {layout.height or 'any height'}; "
                "pass resize='bilinear' to scale pictures"
            )
        target = (layout.width or image.width, layout.height or image.height)
        image = image.resize(target, getattr(pillow().Image.Resampling, said.resize.upper()))
    pixels, white = _pixels(image, layout.channels)
    return _as_tensor(pixels, white, layout, said)


def _opened(data: bytes) -> Any:
    """The picture, upright, loaded to its end."""
    package = pillow()
    if not data:
        raise ValueError("got an empty file, expected a picture")
    try:
        with package.Image.open(io.BytesIO(data)) as image:
            frames = getattr(image, "n_frames", 1)
            if frames > 1 and image.format not in _FRAMES:
                raise ValueError(f"got {frames} pictures in one file, expected one")
            image.load()
            # In PGM files, mode I stands for 16 bits.
            if image.mode == "I" and image.format != "PPM":
                raise ValueError("got 32 bits a pixel, expected 8 or 16")
            upright = package.ImageOps.exif_transpose(image)
    except package.Image.DecompressionBombError:
        raise ValueError(
            f"got a picture of more than {2 * package.Image.MAX_IMAGE_PIXELS} pixels, expected "
            "fewer (PIL.Image.MAX_IMAGE_PIXELS is half of this limit)"
        ) from None
    except package.UnidentifiedImageError:
        raise ValueError("got a file that is not a picture") from None
    except ValueError:
        raise
    except Exception as error:  # Pillow's readers raise SyntaxError, struct.error and others
        raise ValueError(f"got a damaged picture: {error or type(error).__name__}") from error
    return image if upright is None else upright


def _pixels(image: Any, channels: int) -> tuple[np.ndarray, int]:
    """The pixels, [H, W, channels], and the value of white."""
    if image.mode.startswith("I"):  # 16 bits of grey; Pillow's conversion to 8 would clip them
        deep = np.asarray(image).astype(np.int64)
        if deep.size and (deep.min() < 0 or deep.max() > 65535):
            raise ValueError("got 32 bits a pixel, expected 8 or 16")
        grey = deep.astype(np.uint16)[:, :, None]
        parts = {1: [grey], 3: [grey] * 3, 4: [grey] * 3 + [np.full_like(grey, 65535)]}
        return np.concatenate(parts[channels], axis=2), 65535
    if image.mode == "F":
        raise ValueError("got a picture of floats, whose range is unknown, expected integers")
    if image.mode == "P":  # its colours may have an alpha
        image = image.convert("RGBA" if "transparency" in image.info else "RGB")
    mode = MODES[channels]
    return np.asarray(image if image.mode == mode else image.convert(mode)).reshape(
        image.height, image.width, channels
    ), 255


def _as_tensor(pixels: np.ndarray, white: int, layout: Layout, said: PixelSettings) -> np.ndarray:
    if layout.dtype == "uint8":
        tensor = pixels if white == 255 else ((pixels.astype(np.uint32) + 128) // 257)
    elif layout.dtype == "uint16":
        tensor = pixels if white == 65535 else pixels.astype(np.uint16) * 257
    else:
        assert said.range is not None
        low, high = said.range
        tensor = pixels.astype(np.float32)
        if (low, high) != (0.0, float(white)):
            tensor /= np.float32(white)
            if (low, high) != (0.0, 1.0):
                tensor = tensor * np.float32(high - low) + np.float32(low)
        if said.mean:
            tensor = (tensor - np.array(said.mean, np.float32)) / np.array(said.std, np.float32)
    tensor = tensor.astype(layout.dtype, copy=False)
    if layout.axes == "hw":
        return np.ascontiguousarray(tensor[:, :, 0])
    if layout.axes.endswith("chw"):
        tensor = tensor.transpose(2, 0, 1)
    tensor = np.ascontiguousarray(tensor)
    return tensor[None] if layout.axes[0] == "n" else tensor


def encode(tensor: np.ndarray, axes: str, said: PixelSettings, format: str) -> bytes:
    """A picture file of a tensor. Floats outside of their range are clipped, and rounded to the
    nearest of 256 steps (half to even).

    Raises:
        ValueError: It holds no picture, or NaN.
    """
    pixels = tensor
    if axes[0] == "n" and pixels.ndim == 4 and pixels.shape[0] == 1:
        pixels = pixels[0]
    axes = axes.removeprefix("n")
    if pixels.ndim != len(axes) or not pixels.size:
        raise ValueError(f"output: got shape {list(tensor.shape)}, expected a picture as {axes}")
    if axes == "chw":
        pixels = pixels.transpose(1, 2, 0)
    channels = pixels.shape[2] if pixels.ndim == 3 else 1
    if channels not in MODES:
        raise ValueError(f"output: got {channels} channels, expected 1, 3 or 4")
    if pixels.dtype.kind == "f":
        limits = said.output_range or said.range
        assert limits is not None
        low, high = limits
        if np.isnan(pixels).any():
            raise ValueError("output: got NaN, expected pixels")
        scaled = (pixels.astype(np.float32) - np.float32(low)) * np.float32(255 / (high - low))
        pixels = np.rint(scaled.clip(0, 255)).astype(np.uint8)
    if pixels.dtype == np.uint16 and channels != 1:
        raise ValueError("output: got uint16 with colours, expected uint8; Pillow has no such mode")
    pixels = np.ascontiguousarray(pixels if channels > 1 else pixels.reshape(pixels.shape[:2]))
    stream = io.BytesIO()
    pillow().Image.fromarray(pixels).save(stream, FORMATS[format], **_SAVING.get(format, {}))
    return stream.getvalue()


# zlib's level 6 takes three times as long for 2% less; a JPEG of 95 shows no blocks.
_SAVING: dict[str, dict[str, Any]] = {
    "png": {"compress_level": 3},
    "jpg": {"quality": 95},
    "jpeg": {"quality": 95},
    "webp": {"lossless": True},
}


def suffix_of(data: bytes) -> str:
    """The ending of a file's name for bytes that a model wrote, from their first bytes."""
    known = {b"\x89PNG": "png", b"\xff\xd8\xff": "jpg", b"GIF8": "gif", b"BM": "bmp"}
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    return next((end for start, end in known.items() if data.startswith(start)), "bin")
