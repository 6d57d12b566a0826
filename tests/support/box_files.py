"""Photos with boxes, and annotation files of them as other programs write these."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from support.datafiles import jpeg

Box: TypeAlias = tuple[str, float, float, float, float]  # class, x1, y1, x2, y2 in pixels

# Photo → width, height and boxes.
PHOTOS: dict[str, tuple[int, int, list[Box]]] = {
    "a.png": (40, 30, [("dog", 4, 3, 20, 15), ("cat", 1, 0, 40, 30)]),
    "b.png": (24, 48, [("cat", 6, 12, 18, 36)]),
    "c.png": (16, 16, []),
    "d.png": (33, 21, [("dog", 0, 0, 11, 7), ("dog", 11, 7, 33, 14), ("ant", 3, 3, 9, 20)]),
}
CLASSES = ("ant", "cat", "dog")
ROWS = 3  # of the photo with most boxes


def expected(classes: Sequence[str] = CLASSES) -> np.ndarray:
    """The boxes of all photos (4, 3, 5), computed from PHOTOS."""
    targets = np.zeros((len(PHOTOS), ROWS, 5), np.float32)
    targets[:, :, 0] = -1
    for target, (width, height, boxes) in zip(targets, PHOTOS.values(), strict=True):
        for row, (label, x1, y1, x2, y2) in zip(target, boxes, strict=False):
            row[:] = (classes.index(label), y1 / height, x1 / width, y2 / height, x2 / width)
    return targets


def write_photos(folder: Path) -> Path:
    """Writes the photos, one colour each."""
    folder.mkdir(parents=True, exist_ok=True)
    for k, (name, (width, height, _)) in enumerate(PHOTOS.items()):
        (folder / name).write_bytes(jpeg(np.full((height, width, 3), 50 * k, np.uint8)))
    return folder


def voc_object(label: str, x1: float, y1: float, x2: float, y2: float, more: str = "") -> str:
    """An object of Pascal VOC, with other elements."""
    return (
        f"<object><name>{label}</name>{more}<bndbox><xmin>{x1}</xmin><ymin>{y1}</ymin>"
        f"<xmax>{x2}</xmax><ymax>{y2}</ymax></bndbox></object>"
    )


def voc(name: str, width: int, height: int, objects: str) -> str:
    """An annotation of Pascal VOC."""
    return (
        f"<annotation><filename>{name}</filename><size><width>{width}</width>"
        f"<height>{height}</height><depth>3</depth></size>{objects}</annotation>"
    )


def write_voc(folder: Path) -> Path:
    """Writes a file for each photo with boxes."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (width, height, boxes) in PHOTOS.items():
        objects = "".join(voc_object(*box) for box in boxes)
        (folder / name).with_suffix(".xml").write_text(voc(name, width, height, objects))
    return folder
