"""The model with its pre- and post-processing: PNG or JPEG bytes in, PNG bytes out, one file.

    image uint8[bytes] -> check -> DecodeImage -> RGB  -> pixels uint8[H, W, 3]
    pixels, factor     -> 0..1, network, 0..255        -> enlarged uint8[H * factor, W * factor, 3]
    enlarged           -> EncodeImage                  -> png uint8[bytes]

The middle is PyTorch, exported by myops.onnx.export; DecodeImage and EncodeImage are ops of
onnxruntime-extensions; onnx.compose joins the three. A session needs both libraries.

python examples/super_resolution/image_model.py photo.jpg --factor 2.5 --output big.png
"""

from __future__ import annotations

import argparse
import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.compose
import onnx.parser
import onnxruntime_extensions
import torch
from data import Picture, read, to_picture, to_scales, to_tensor
from model import WEIGHTS, SuperResolution, load
from PIL import Image, UnidentifiedImageError
from torch import Tensor, nn

import myops.onnx
import myops.ort

OPSET = 20
_DOMAIN = "com.microsoft.extensions"

# A node can only fail with the words of its op, but ONNX Runtime also says its name. The first
# two are Gather nodes that read past the end when what they are named after is not so.
NOT_AN_IMAGE = "the image must be a PNG, or a JPEG up to its end"
NOT_RGB = "the image must have the colours RGB or grey, not CMYK"
DAMAGED = "DecodeImage: fails when the image is damaged"

# DecodeImage would end the process for anything that begins with neither signature, and never
# come back from some JPEGs that lack their end (onnxruntime-extensions 0.15).
_DECODE = f"""
<ir_version: 9, opset_import: ["" : {OPSET}, "{_DOMAIN}" : 1]>
decode (uint8[bytes] image) => (uint8[height, width, 3] pixels)
<int32[8] png = {{137, 80, 78, 71, 13, 10, 26, 10}}, int32[3] jpeg = {{255, 216, 255}},
 int32[2] jpeg_end = {{255, 217}}, int64[1] zero = {{0}}, int64[1] two = {{2}},
 int64[1] three = {{3}}, int64[1] eight = {{8}}, int64[1] last = {{-2}},
 int64[1] end = {{9223372036854775807}}, int64 rgb = {{3}}, int64 grey = {{1}},
 uint8[8] padding = {{0, 0, 0, 0, 0, 0, 0, 0}}>
{{
    padded = Concat <axis = 0> (padding, image, padding)
    sixteen = Add (eight, eight)
    first = Slice (padded, eight, sixteen)
    first_8 = Cast <to = 6> (first)
    first_3 = Slice (first_8, zero, three)
    before = Concat <axis = 0> (padding, image)
    ending = Slice (before, last, end)
    last_2 = Cast <to = 6> (ending)
    same_png = Equal (first_8, png)
    same_jpeg = Equal (first_3, jpeg)
    same_end = Equal (last_2, jpeg_end)
    same_both = Concat <axis = 0> (same_jpeg, same_end)
    png_bits = Cast <to = 6> (same_png)
    jpeg_bits = Cast <to = 6> (same_both)
    is_png = ReduceMin <keepdims = 0> (png_bits)
    is_jpeg = ReduceMin <keepdims = 0> (jpeg_bits)
    readable = Max (is_png, is_jpeg)
    readable_bit = Cast <to = 9> (readable)
    unreadable = Not (readable_bit)
    beyond = Cast <to = 7> (unreadable)
    one_image = Unsqueeze (image, zero)
    checked = Gather <axis = 0> (one_image, beyond)
    decoded = {_DOMAIN}.DecodeImage <color_space = "rgb"> (checked)
    shape = Shape <start = 2> (decoded)
    channels = Squeeze (shape)
    is_rgb = Equal (channels, rgb)
    is_grey = Equal (channels, grey)
    known = Or (is_rgb, is_grey)
    unknown = Not (known)
    beyond_colours = Cast <to = 7> (unknown)
    one_picture = Unsqueeze (decoded, zero)
    coloured = Gather <axis = 0> (one_picture, beyond_colours)
    thrice = Concat <axis = 2> (coloured, coloured, coloured)
    pixels = Slice (thrice, zero, three, two)
}}
"""

_ENCODE = f"""
<ir_version: 9, opset_import: ["" : {OPSET}, "{_DOMAIN}" : 1]>
encode (uint8[height, width, 3] enlarged) => (uint8[bytes] png)
{{
    png = {_DOMAIN}.EncodeImage <format = "png", color_space = "rgb"> (enlarged)
}}
"""


class Pixels(nn.Module):
    """The network between 8-bit pixels: the same steps as `to_tensor` and `to_picture`."""

    def __init__(self, network: SuperResolution) -> None:
        super().__init__()
        self.network = network

    def forward(self, pixels: Tensor, factor: Tensor) -> Tensor:
        """Enlarges uint8[H, W, 3] by `factor`, a float32 scalar."""
        picture = pixels.permute(2, 0, 1).unsqueeze(0).to(torch.float32) / 255
        scales = torch.cat([torch.ones(2), factor.reshape(1), factor.reshape(1)])
        enlarged = self.network(picture, scales)[0].permute(1, 2, 0)
        return (enlarged.clamp(0, 1) * 255).round().to(torch.uint8)


def export(
    network: SuperResolution, path: Path, exporter: str = "dynamo", target: str = "myops"
) -> onnx.ModelProto:
    """Writes the one file.

    Its inputs are `image` (uint8[bytes], a PNG or JPEG file) and `factor` (float32 scalar), its
    output is `png` (uint8[bytes]). Height, width and factor are open.
    """
    middle = myops.onnx.export(
        Pixels(network),
        (torch.zeros(32, 48, 3, dtype=torch.uint8), torch.tensor(3.0)),
        input_names=["pixels", "factor"],
        output_names=["enlarged"],
        dynamic_axes={"pixels": {0: "height", 1: "width"}},
        opset_version=OPSET,
        exporter=exporter,
        target=target,
    )
    decode, encode = (
        _end(text, prefix, middle.ir_version)
        for text, prefix in ((_DECODE, "decode/"), (_ENCODE, "encode/"))
    )
    model = onnx.compose.merge_models(decode, middle, io_map=[("pixels", "pixels")])
    model = onnx.compose.merge_models(model, encode, io_map=[("enlarged", "enlarged")])
    model.graph.name = "super_resolution_image"
    versions = {item.domain: item.version for item in model.opset_import}
    del model.opset_import[:]  # merge_models repeats what both models import
    model.opset_import.extend(onnx.helper.make_opsetid(*item) for item in versions.items())
    onnx.save(model, path)
    return model


def _end(text: str, prefix: str, ir_version: int) -> onnx.ModelProto:
    """One end of the model, with names that the middle does not have."""
    model = onnx.parser.parse_model(text)
    model.ir_version = ir_version  # merge_models wants one
    messages = {"checked": NOT_AN_IMAGE, "decoded": DAMAGED, "coloured": NOT_RGB}
    for node in model.graph.node:
        node.name = messages.get(node.output[0], prefix + node.output[0])
    return onnx.compose.add_prefix(
        model, prefix, rename_inputs=False, rename_outputs=False, rename_nodes=False
    )


def session(path: Path) -> Any:
    """The file in ONNX Runtime, with both libraries."""
    return myops.ort.session(path, libraries=[onnxruntime_extensions.get_library_path()])


def enlarge(session: Any, image: bytes, factor: float) -> bytes:
    """Runs the file: the bytes of a PNG or JPEG, a factor; the bytes of a PNG."""
    feed = {"image": np.frombuffer(image, np.uint8), "factor": np.array(factor, np.float32)}
    return session.run(None, feed)[0].tobytes()


def by_hand(session: Any, image: bytes, factor: float) -> Picture:
    """The same with Pillow around the plain model (`super_resolution.onnx`), as pixels."""
    picture = read(io.BytesIO(image))
    feed = {"picture": to_tensor(picture).numpy(), "scales": to_scales(factor).numpy()}
    return to_picture(session.run(None, feed)[0])


def check(path: Path) -> bytes:
    """The bytes of a picture file that can be decoded to its end.

    The graph refuses what is no PNG or JPEG, and a PNG that is damaged. A JPEG that is damaged in
    its header ends the process inside DecodeImage, so files of unknown origin go through here.

    Raises:
        ValueError: No picture, or a damaged one.
    """
    data = path.read_bytes()
    try:
        with Image.open(io.BytesIO(data)) as image:
            image.load()
    except UnidentifiedImageError:
        raise ValueError(f"{path}: got a file that is not a picture") from None
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise ValueError(f"{path}: got a damaged picture: {error}") from error
    return data


def main() -> int:
    parser = argparse.ArgumentParser(description="Enlarges a picture file by any factor, in ONNX.")
    parser.add_argument("image", type=Path, help="a PNG or JPEG file")
    parser.add_argument("--factor", type=float, default=2.0, help="1 or more (default: 2)")
    parser.add_argument("--output", type=Path, default=Path("enlarged.png"), help="PNG to write")
    parser.add_argument("--model", type=Path, help="what demo.py wrote; default: export it now")
    parser.add_argument("--weights", type=Path, default=WEIGHTS, help="what train.py wrote")
    args = parser.parse_args()
    try:
        image = check(args.image)
        model = args.model
        if model is None:
            model = args.output.with_suffix(".onnx")
            export(load(args.weights), model)
        png = enlarge(session(model), image, args.factor)
    except (OSError, ValueError, RuntimeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except Exception as error:  # what ONNX Runtime raises has Exception as its only base
        print(f"error: {args.image}: {error}", file=sys.stderr)
        return 2
    args.output.write_bytes(png)
    with Image.open(args.output) as enlarged:
        print(f"{args.output}: {enlarged.width} x {enlarged.height}, by {model}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
