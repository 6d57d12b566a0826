"""Draws a contact sheet: samples of a file with their labels, in one picture."""

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from odt.core.data.column import Column
from odt.core.model.record import is_channels_first
from odt.core.storage.atomic_files import write_atomically
from odt.datasets.boxes.drawing import DrawnBox, draw_boxes
from odt.datasets.pictures import pillow
from odt.errors import DataError
from odt.kernels.rows.opdef import Array

TILE = 96  # pixels of a sample's longer side
BOXED_TILE = 240  # the same of a sample with boxes
TEXT = 14  # pixels of each line below it
GAP = 4
LETTER = 6  # pixels of a letter's width
DARK = np.uint8(32)


def write_sheet(
    path: Path,
    column: Column,
    labels: Sequence[str],
    samples: Sequence[int] | None = None,
    boxes: Sequence[Sequence[DrawnBox]] = (),
) -> None:
    """Writes a contact sheet as PNG.

    Args:
        path: the file to write.
        column: column of the samples.
        labels: labels of the samples, of one or several lines; one sample is shown for each.
        samples: numbers of the samples; None for the first.
        boxes: boxes to draw on each sample; empty for none.

    Raises:
        MissingPackageError: if Pillow is not installed.
        DataError: if a sample cannot be read, or the file cannot be written.
    """
    image = pillow()
    from PIL import ImageDraw

    numbers = range(min(len(labels), column.length)) if samples is None else samples
    count = len(numbers)
    lines = max((label.count("\n") + 1 for label in labels), default=1)
    rows = np.empty((count, column.spec.size), column.spec.dtype)
    column.read(numbers, rows)
    across = max(1, math.ceil(math.sqrt(count)))
    down = math.ceil(count / across)
    side = BOXED_TILE if boxes else TILE
    width, height = side + GAP, side + lines * TEXT + GAP
    sheet = image.new("RGB", (across * width + GAP, down * height + GAP), (int(DARK),) * 3)
    draw = ImageDraw.Draw(sheet)
    for k, row in enumerate(rows):
        x, y = GAP + k % across * width, GAP + k // across * height
        inside = boxes[k] if k < len(boxes) else ()
        sheet.paste(_tile(image, picture(row, column.spec.shape), side, inside), (x, y))
        for n, text in enumerate(labels[k].split("\n")):
            shown = printable(text, side // LETTER)
            draw.text((x, y + side + 1 + n * TEXT), shown, fill=(255, 255, 255))
    data = io.BytesIO()
    sheet.save(data, "PNG")
    write_atomically(path, [data.getvalue()], DataError)


def picture(row: Array, shape: tuple[int, ...]) -> Array:
    """Draws one sample (an image, a spectrogram or a curve) as bytes (H, W, 3).

    The smallest value of the sample becomes black, the largest white.
    """
    x = np.nan_to_num(row.astype(np.float64))
    least, most = x.min(), x.max()
    x = (x - least) / (most - least if most > least else 1)
    if len(shape) == 3 and shape[2] in (1, 3):
        x = x.reshape(shape)
    elif is_channels_first(shape):
        x = np.moveaxis(x.reshape(shape), 0, 2)
    elif len(shape) == 2 and min(shape) > 1:
        x = x.reshape(shape)[..., None]
    elif len(shape) == 3 and shape[2] == 2:
        x = x.reshape(shape)[..., :1]
    else:
        x = _curve(x.reshape(-1))[..., None]
    gray = (x * 255).astype(np.uint8)
    return np.repeat(gray, 3, axis=2) if gray.shape[2] == 1 else gray


def _curve(x: Array) -> Array:
    """Draws a curve (n,) of values from 0 to 1 as a white line: pixels (TILE, TILE)."""
    positions = np.linspace(0, len(x) - 1, TILE).round().astype(int)
    rows = ((1 - x[positions]) * (TILE - 1)).round().astype(int)
    pixels = np.zeros((TILE, TILE))
    for k, row in enumerate(rows):
        before = rows[max(0, k - 1)]
        pixels[min(row, before) : max(row, before) + 1, k] = 1
    return pixels


def _tile(image: Any, pixels: Array, side: int, boxes: Sequence[DrawnBox]) -> Any:
    """Scales an image to a tile of `side` pixels, draws its boxes and centers it."""
    picture = image.fromarray(pixels)
    scale = side / max(picture.size)
    size = tuple(max(1, round(n * scale)) for n in picture.size)
    resample = image.Resampling.NEAREST if scale > 1 else image.Resampling.BILINEAR
    tile = image.new("RGB", (side, side), (int(DARK),) * 3)
    picture = picture.resize(size, resample)
    draw_boxes(picture, boxes)
    tile.paste(picture, ((side - size[0]) // 2, (side - size[1]) // 2))
    return tile


def printable(label: str, most: int = TILE // LETTER) -> str:
    """Returns the part of a label that Pillow's built-in font can draw and that fits a tile."""
    return label.encode("latin1", "replace").decode("latin1")[:most]
