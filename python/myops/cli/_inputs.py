"""The options for inputs, of the commands that run a model."""

from __future__ import annotations

from typing import Annotated

import typer

Input = Annotated[
    list[str] | None,
    typer.Option(help="An input to run with instead of an invented one.", metavar="NAME=FILE.npy"),
]
Shape = Annotated[
    list[str] | None,
    typer.Option(help="Shape of an invented input.", metavar="NAME:1x3x320x320"),
]
Dim = Annotated[
    list[str] | None,
    typer.Option(
        help="Length of an axis that the model leaves open, by its name, or as INPUT:AXIS=LENGTH. "
        "Default: what the model demands, else several are tried.",
        metavar="NAME=LENGTH",
    ),
]
# Parameters of the library's functions -> options, for their messages.
OPTIONS = {"inputs": "--input", "dims": "--dim", "shapes": "--shape"}


def asked(
    input: list[str] | None, dim: list[str] | None, shape: list[str] | None
) -> tuple[dict[str, str], dict[str, int], dict[str, list[int]]]:
    """Files, lengths and shapes by name.

    Raises:
        ValueError: An option has another form.
    """
    files = dict(_pairs(input, "--input", "NAME=FILE.npy"))
    lengths = {name: _length(name, value) for name, value in _pairs(dim, "--dim", "NAME=LENGTH")}
    return files, lengths, dict(map(_shape, shape or ()))


def _pairs(given: list[str] | None, option: str, form: str) -> list[tuple[str, str]]:
    pairs = []
    for text in given or ():
        name, sign, value = text.rpartition("=")
        if not sign or not name or not value:
            raise ValueError(f"{option}: got {text!r}, expected {form}")
        pairs.append((name, value))
    return pairs


def _shape(text: str) -> tuple[str, list[int]]:
    """ "x:1x3x320x320" as ("x", [1, 3, 320, 320]); commas do as well."""
    name, sign, lengths = text.rpartition(":")
    if not sign and "=" in text:
        name, sign, lengths = text.rpartition("=")
    parts = lengths.replace(",", "x").split("x") if lengths else []
    if not sign or not name or not all(part.strip().isdigit() for part in parts):
        raise ValueError(f"--shape: got {text!r}, expected NAME:1x3x320x320")
    return name, [int(part) for part in parts]


def _length(name: str, value: str) -> int:
    if not value.isdigit():
        raise ValueError(f"--dim: {name}: got {value!r}, expected a number")
    return int(value)
