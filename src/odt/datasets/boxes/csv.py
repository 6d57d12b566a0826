"""CSV: a table with a line for each box, read by its header, or TFLite Model Maker's without one.

Columns have pixels, as in tutorials of TensorFlow's detectors, or fractions, as in Open Images.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from odt.core.storage.reading import listed
from odt.datasets.boxes.annotation import AnnotationFile, Annotations, BoxFormat, finite
from odt.datasets.class_folders import SPLITS
from odt.errors import DataError

# What a column holds → its names, without blanks, _ and -.
COLUMNS = {
    "photo": ("filename", "file", "image", "imagename", "imageid", "imagepath", "path", "img"),
    "label": ("class", "label", "classname", "labelname", "category", "name"),
    "x1": ("xmin", "x1", "left", "bboxxmin", "bboxx1"),
    "y1": ("ymin", "y1", "top", "bboxymin", "bboxy1"),
    "x2": ("xmax", "x2", "right", "bboxxmax", "bboxx2"),
    "y2": ("ymax", "y2", "bottom", "bboxymax", "bboxy2"),
    "width": ("width", "imagewidth", "imgwidth"),
    "height": ("height", "imageheight", "imgheight"),
    "split": ("set", "split", "subset"),
}
CORNERS = ("x1", "y1", "x2", "y2")
NEEDED = ("photo", "label", *CORNERS)
# Columns of Model Maker: set, path, label, x1, y1, x2, y1, x2, y2, x1, y2; some may be empty.
MODEL_MAKER = {"split": 0, "photo": 1, "label": 2, "x1": 3, "y1": 4, "x2": 7, "y2": 8}
SETS = {"TRAIN", "TRAINING", "VALIDATION", "TEST", "UNASSIGNED"}
WIDTH = 11


def _fits(file: AnnotationFile) -> bool:
    return bool(file.content) and _columns(file.content[0][1]) is not None


def _columns(first: Sequence[str]) -> Mapping[str, int] | None:
    """Returns what each column of a table holds, by its first line; None for another table."""
    if len(first) == WIDTH and first[0].strip().upper() in SETS:
        return MODEL_MAKER
    places: dict[str, int] = {}
    names = [re.sub(r"[\s_-]", "", name).lower() for name in first]
    for role, spellings in COLUMNS.items():
        place = next((names.index(name) for name in spellings if name in names), None)
        if place is not None:
            places[role] = place
    others = {*range(len(names))} - {*places.values()}
    if "label" not in places and len(others) == 1:
        places["label"] = others.pop()
    return places if all(role in places for role in NEEDED) else None


def _read(file: AnnotationFile, annotations: Annotations) -> None:
    columns = _columns(file.content[0][1])
    assert columns is not None, "the format fits"
    rows = file.content if columns is MODEL_MAKER else file.content[1:]
    in_pixels = columns is not MODEL_MAKER and _has_pixels(columns, (cells for _, cells in rows))
    if annotations.photos and in_pixels != annotations.in_pixels:
        raise DataError(
            f"{file.where}: must have pixels or fractions as the other files, but has "
            f"{'pixels' if in_pixels else 'fractions'}."
        )
    annotations.in_pixels = in_pixels
    for number, cells in rows:
        row = f"line {number}"
        values = {role: cells[k].strip() if k < len(cells) else "" for role, k in columns.items()}
        if not values["photo"]:
            raise DataError(f"{file.where}: {row}: must name a photo, but is {listed(cells)}.")
        photo = annotations.photo(file, values["photo"])
        photo.state_size(values.get("width"), values.get("height"))
        photo.split = SPLITS.get(values.get("split", "").lower(), photo.split)
        corners = [values[corner] for corner in CORNERS]
        if values["label"] or any(corners):  # else the photo has no boxes
            photo.add(row, values["label"], corners)


def _has_pixels(columns: Mapping[str, int], rows: Iterable[Sequence[str]]) -> bool:
    """Whether coordinates are pixels: fractions are at most 1, and some are not whole."""
    has_fractions = False
    for cells in rows:
        for corner in CORNERS:
            numbers = finite(cells[columns[corner] : columns[corner] + 1]) or ()
            if any(number > 1 for number in numbers):
                return True
            has_fractions |= any(number % 1 for number in numbers)
    return not has_fractions


FORMAT = BoxFormat("csv", "CSV", (".csv",), _fits, _read)
