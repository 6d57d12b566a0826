"""Boxes of photos as annotation files state them, and BoxFormat, the row of a format."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from odt.core.storage.reading import listed, printable
from odt.dataclass import dataclass

MAX_BOXES = 4096  # of a photo

# Why boxes are left out → what they are, one and several.
NO_AREA = ("box without area", "boxes without area")
CROWD = ("crowd", "crowds")
DIFFICULT = ("box marked as difficult", "boxes marked as difficult")
SHAPE = ("polygon or rotated box", "polygons or rotated boxes")

Reason: TypeAlias = tuple[str, str]
Corners: TypeAlias = tuple[float, float, float, float]  # y1, x1, y2, x2


@dataclasses.dataclass(slots=True)
class PhotoBoxes:
    """The boxes of one photo in an annotation file.

    Attributes:
        name: name or path of the photo.
        file: the annotation file, in messages.
        folder: folder of the annotation file.
        other_name: a second name of the photo, if there is no photo of the first; empty for none.
        width, height: size of the photo in pixels; 0 if the file does not state it.
        split: train, validation or test; empty if the file does not state it.
        labels: class of each box: a name, or the number of a name that another file states.
        corners: y1, x1, y2, x2 of each box, in pixels or as fractions of the photo.
        rows: place of each box in the file, such as "line 7".
        left_out: why boxes were left out, one reason for each.
        faults: what is wrong in the annotation.
    """

    name: str
    file: str
    folder: str = ""
    other_name: str = ""
    width: float = 0
    height: float = 0
    split: str = ""
    labels: list[str | int] = dataclasses.field(default_factory=list)
    corners: list[Corners] = dataclasses.field(default_factory=list)
    rows: list[str] = dataclasses.field(default_factory=list)
    left_out: list[Reason] = dataclasses.field(default_factory=list)
    faults: list[str] = dataclasses.field(default_factory=list)

    def add(self, row: str, label: object, corners: Sequence[object]) -> None:
        """Adds a box, or what is wrong with it.

        Args:
            row: its place in the file.
            label: its class: a name or, for formats that number classes, a number.
            corners: x1, y1, x2, y2: numbers or texts.
        """
        numbers = finite(corners)
        if numbers is None or len(numbers) != 4:
            self.fault(row, f"must have four finite coordinates, but has {listed(corners)}")
            return
        if not isinstance(label, int) and not (isinstance(label, str) and label.strip()):
            self.fault(row, f"must have a class, but has {printable(label)}")
            return
        x1, y1, x2, y2 = numbers
        if x2 <= x1 or y2 <= y1:
            self.left_out.append(NO_AREA)
            return
        self.labels.append(label.strip() if isinstance(label, str) else label)
        self.corners.append((y1, x1, y2, x2))
        self.rows.append(row)

    def add_sized(
        self, row: str, label: object, box: Sequence[object], anchor: float = 0.0
    ) -> None:
        """Adds a box that is stated by a point and its size, or what is wrong with it.

        Args:
            row, label: as for `add`.
            box: x and y of the point, width, height.
            anchor: place of the point in the box: 0 for the top left corner, 0.5 for the center.
        """
        numbers = finite(box)
        if numbers is None or len(numbers) != 4:
            self.add(row, label, box)
            return
        x, y, width, height = numbers
        left, top = x - anchor * width, y - anchor * height
        self.add(row, label, (left, top, left + width, top + height))

    def fault(self, row: str, rule: str) -> None:
        """Adds what is wrong at a place of the file; an empty place is the whole file."""
        self.faults.append(f"{self.file}: {row}: {rule}" if row else f"{self.file}: {rule}")

    def state_size(self, width: object, height: object) -> None:
        """Takes the size of the photo from the file, if it states one."""
        numbers = finite((width, height))
        if numbers is not None:
            self.width, self.height = numbers


class Annotations:
    """The annotations of all files of one format.

    Attributes:
        classes: class names in order, if the format numbers them; else empty.
        in_pixels: whether coordinates are pixels; else fractions of the size of a photo.
    """

    def __init__(self) -> None:
        self.classes: tuple[str, ...] = ()
        self.in_pixels = True
        self._photos: dict[tuple[str, str], PhotoBoxes] = {}

    @property
    def photos(self) -> list[PhotoBoxes]:
        """The photos, in the order of the files."""
        return [*self._photos.values()]

    def photo(self, file: "AnnotationFile", name: str) -> PhotoBoxes:
        """Returns the boxes of a photo in a file, to which others are added."""
        key = file.name, name
        if key not in self._photos:
            self._photos[key] = PhotoBoxes(name, file.where, file.folder, split=file.split)
        return self._photos[key]


@dataclass(frozen=True, slots=True)
class AnnotationFile:
    """A file that may be an annotation.

    Attributes:
        name: path in its folder or archive.
        where: the file in messages.
        folder: the folder that it is in.
        split: the split that its name states; empty for none.
        content: its content: the root of XML, the value of JSON, rows of a table, lines of text.
    """

    name: str
    where: str
    folder: str
    split: str
    content: Any


@dataclass(frozen=True, slots=True)
class BoxFormat:
    """A format of annotations.

    Attributes:
        name: its name in records.
        title: its name in messages.
        suffixes: suffixes of its files, in lower case.
        fits: whether a file has this format, by its content.
        read: adds the content of a file to the annotations.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    fits: Callable[[AnnotationFile], bool]
    read: Callable[[AnnotationFile, Annotations], None]


def finite(values: Iterable[object]) -> tuple[float, ...] | None:
    """Returns numbers, or texts of numbers, as floats; None if one is not a finite number."""
    numbers = []
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            return None
        try:
            number = float(value)
        except (ValueError, OverflowError):
            return None
        if not math.isfinite(number):
            return None
        numbers.append(number)
    return tuple(numbers)
