"""The side-by-side sheet: a row per factor, a column per way of enlarging."""

from __future__ import annotations

from dataclasses import dataclass

from data import Picture
from PIL import Image, ImageDraw, ImageFont

_ZOOM = 3  # each pixel of a crop becomes 3 x 3, so that differences can be seen
_GAP, _HEAD, _FOOT, _SIDE = 10, 44, 28, 90  # pixels: between tiles, above, below, left
_PAPER, _INK, _FAINT, _GOOD = (255, 255, 255), (20, 20, 20), (110, 110, 110), (0, 110, 50)
_COLUMNS = ("nearest", "bicubic", "ours", "original")


@dataclass(frozen=True)
class Row:
    """One factor's pictures, all in the size of the original.

    Args:
        label: The factor, as "x2.5".
        nearest, bicubic, ours, original: uint8[H, W, 3].
        notes: A line below each of the four.
    """

    label: str
    nearest: Picture
    bicubic: Picture
    ours: Picture
    original: Picture
    notes: tuple[str, str, str, str]


def draw(rows: list[Row], box: tuple[int, int, int, int]) -> Image.Image:
    """Puts the part `box` of every picture on one sheet.

    Args:
        rows: One per factor, top to bottom.
        box: Left, upper, right, lower, in pixels of the original.
    """
    width, height = (box[2] - box[0]) * _ZOOM, (box[3] - box[1]) * _ZOOM
    step_x, step_y = width + _GAP, height + _FOOT + _GAP
    size = (_SIDE + len(_COLUMNS) * step_x, _HEAD + len(rows) * step_y)
    sheet = Image.new("RGB", size, _PAPER)
    pen = ImageDraw.Draw(sheet)
    large, small = ImageFont.load_default(26), ImageFont.load_default(18)
    for column, name in enumerate(_COLUMNS):
        centre = _SIDE + column * step_x + width // 2
        pen.text((centre, _HEAD // 2), name, _INK, large, anchor="mm")
    for number, row in enumerate(rows):
        top = _HEAD + number * step_y
        pen.text((_SIDE // 2, top + height // 2), row.label, _INK, large, anchor="mm")
        for column, name in enumerate(_COLUMNS):
            left = _SIDE + column * step_x
            tile = Image.fromarray(getattr(row, name)).crop(box)
            tile = tile.resize((width, height), Image.Resampling.NEAREST)
            sheet.paste(tile, (left, top))
            middle = left + width // 2, top + height + _FOOT // 2
            ink = _GOOD if name == "ours" else _FAINT
            pen.text(middle, row.notes[column], ink, small, anchor="mm")
    return sheet
