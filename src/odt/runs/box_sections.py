"""Sections of a report about boxes: figures of each class, samples with their boxes."""

import base64
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from odt.core.data.dataset import DataSet
from odt.datasets.boxes.drawing import LEAST_SCORE, DrawnBox, name_of
from odt.evaluation.box_table import BoxTable
from odt.kernels.rows.opdef import Array
from odt.runs.page import section, table
from odt.runs.sample_origin import SampleOrigin
from odt.runs.sample_pictures import png, upright
from odt.tasks.box_counts import BoxCounts

if TYPE_CHECKING:
    from odt.training.detection import Detections

HEADS = ("class", "mAP", "mAP at 0.5", "F1", "boxes", "found", "missed", "false")
TEXT = 18  # lines of text in a photo's height or width, whichever is larger
ABOUT = (
    f"Boxes found, missed and false are those of detections with a score of at least {LEAST_SCORE}."
)
LEGEND = "True boxes are dashed, detections have a score."


def box_sections(
    data: DataSet, detections: "Detections", origin: SampleOrigin, about: str, most: int
) -> list[str]:
    """Returns the sections of an evaluation on boxes.

    Args:
        data: the samples.
        detections: their detections.
        origin: where the samples come from.
        about: what was evaluated, as HTML; the first section has it.
        most: number of samples that are shown.
    """
    figures = f'<div class="wide">{_classes(detections)}</div>'
    worst = detections.worst(LEAST_SCORE)[:most]
    tiles = "".join(_tiles(data, detections, worst, origin))
    content = f'<p class="pale">{LEGEND}</p><div class="samples photos">{tiles}</div>'
    return [
        section("Classes", f'{about}<p class="pale">{ABOUT}</p>{figures}'),
        section(
            "Samples with the most missed and false boxes", content if worst else "<p>None.</p>"
        ),
    ]


def _classes(detections: "Detections") -> str:
    """Returns the figures of each class, and of all, as a table."""
    precision = detections.average_precision()
    rows = []
    total = BoxCounts()
    for label in detections.labels():
        counts = (detections.counts(n, LEAST_SCORE, label) for n in detections.rows)
        of_class = sum(counts, BoxCounts())
        total += of_class
        values = precision.classes.get(label, (np.nan, np.nan))
        rows.append(_row(name_of(label, detections.names), values, of_class))
    rows.append(_row("all", (precision.map, precision.map50), total))
    return table(HEADS, rows, "classes")


def _row(name: str, precision: Sequence[float], counts: BoxCounts) -> tuple[str, ...]:
    """Returns the row of a class; figures that need true boxes are empty without them."""
    figures = ("" if np.isnan(v) else f"{v:.4f}" for v in (*precision, counts.f1))
    numbers = (counts.boxes, counts.true, counts.missed, counts.false)
    return name, *figures, *map(str, numbers)


def _tiles(
    data: DataSet, detections: "Detections", samples: Sequence[int], origin: SampleOrigin
) -> Iterator[str]:
    """Yields samples as photos with their boxes."""
    column = data.inputs[0]
    row = np.empty((1, column.spec.size), column.spec.dtype)
    rows = BoxTable(detections, LEAST_SCORE)
    for sample in samples:
        column.read([sample], row)
        words = dict(zip(rows.heads, rows.cells(sample), strict=True))
        if origin.files:
            words["source"] = origin.files[sample]
        lines = "".join(f"{escape(k)} <b>{escape(v)}</b><br>" for k, v in words.items())
        pixels = upright(row[0], column.spec.shape, origin.kind)
        boxes = detections.drawn(sample, LEAST_SCORE)
        true, detected = (described(b for b in boxes if b.dashed == d) for d in (True, False))
        label = f"sample {sample}; true: {true}; detected: {detected}"
        photo = photo_with(pixels, boxes, label)
        yield f'<figure class="sample">{photo}<figcaption>{lines}</figcaption></figure>'


def described(boxes: Iterable[DrawnBox]) -> str:
    """Returns the texts of boxes, for the label of a photo."""
    return ", ".join(box.text for box in boxes) or "nothing"


def photo_with(pixels: Array, boxes: Sequence[DrawnBox], label: str) -> str:
    """Returns a photo with boxes as SVG.

    Args:
        pixels: bytes (H, W, 3).
        boxes: the boxes.
        label: description of the photo.
    """
    height, width, _ = pixels.shape
    image = base64.b64encode(png(pixels)).decode()
    size = max(height, width) / TEXT
    shapes = "".join(_shape(box, height, width, size) for box in boxes)
    return (
        f'<svg role="img" aria-label="{escape(label)}" viewBox="0 0 {width} {height}">'
        f'<image width="{width}" height="{height}" href="data:image/png;base64,{image}"/>'
        f"{shapes}</svg>"
    )


def _shape(box: DrawnBox, height: int, width: int, size: float) -> str:
    """Returns a box with its text: above it, or inside at the bottom for a true one, as SVG."""
    x1, x2 = (min(max(x, 0), 1) * width for x in (box.x1, box.x2))
    y1, y2 = (min(max(y, 0), 1) * height for y in (box.y1, box.y2))
    color = f"rgb{box.color}".replace(" ", "")
    kind = "true" if box.dashed else "detected"
    y = y2 - size / 4 if box.dashed else max(y1 - size / 4, size)
    # A text that begins in the right half of a photo ends where its box does.
    x, anchor = (x1, "start") if x1 < width / 2 else (x2, "end")
    corners = f'x="{x1:.2f}" y="{y1:.2f}" width="{x2 - x1:.2f}" height="{y2 - y1:.2f}"'
    return (
        f'<rect class="{kind}" {corners} stroke="{color}"/>'
        f'<text x="{x:.2f}" y="{y:.2f}" font-size="{size:.2f}" text-anchor="{anchor}" '
        f'fill="{color}">{escape(box.text)}</text>'
    )
