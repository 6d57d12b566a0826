"""Opens photos whose targets are boxes of objects."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from odt.core.storage.reading import listed, printable
from odt.dataclass import dataclass
from odt.datasets.boxes.annotation import MAX_BOXES, Annotations, PhotoBoxes, Reason
from odt.datasets.boxes.annotation_files import open_annotations, read_annotations
from odt.datasets.boxes.image_sets import read_image_sets
from odt.datasets.boxes.photo_names import PhotoNames
from odt.datasets.class_folders import ALL
from odt.datasets.folders import ORDER, Decode, FilePart, files_of, parts_of
from odt.datasets.source import Remarks, Sample, SampleError, Source
from odt.datasets.tree import Tree
from odt.errors import DataError
from odt.kernels.rows.opdef import Array

TOLERANCE = 1.0  # pixels that a box may be outside of its photo
NO_CLASSES = (
    "classes must have names, but are numbers. Give them in a file data.yaml or classes.txt beside "
    "the boxes, or as `classes=NAME,NAME,…`"
)


@dataclass(frozen=True, slots=True)
class SourceBoxes:
    """The boxes of all photos of a source.

    Attributes:
        photos: path of a photo → its boxes, whose labels are class numbers; none for a photo
            without an annotation.
        in_pixels: whether coordinates are pixels; else fractions.
        rows: largest number of boxes of a photo, at least 1.
    """

    photos: Mapping[str, PhotoBoxes]
    in_pixels: bool
    rows: int

    def target(self, name: str, height: int, width: int) -> Array:
        """Returns the boxes of a photo (rows, 5): class, y1, x1, y2, x2 as fractions of its size.

        Rows without a box have the class −1 and zeros.

        Args:
            name: path of the photo.
            height, width: its size in pixels.

        Raises:
            SampleError: if the annotation has faults, or does not fit the photo.
        """
        target = np.zeros((self.rows, 5), np.float32)
        target[:, 0] = -1
        photo = self.photos.get(name)
        if photo is None:
            return target
        sizes = np.array([height, width, height, width], np.float64)
        corners = np.array(photo.corners, np.float64).reshape(-1, 4)
        fractions = corners / sizes if self.in_pixels else corners
        margin = TOLERANCE / sizes[:2]
        low, high = fractions[:, :2], fractions[:, 2:]
        is_inside = (low >= -margin) & (high <= 1 + margin) & (low < 1) & (high > 0)
        inside = np.clip(fractions, 0, 1).astype(np.float32)
        is_flat = np.asarray((inside[:, :2] >= inside[:, 2:]).any(axis=1))  # also by rounding
        faults = [*photo.faults]
        stated = photo.width, photo.height
        if all(stated) and stated != (width, height):
            faults.append(
                f"{photo.file}: must state the size of the photo after its EXIF rotation, "
                f"{width}×{height}, but has {photo.width:g}×{photo.height:g}"
            )
            is_inside[:], is_flat[:] = True, False  # boxes are outside because of that
        edges = f"{width}×{height} pixels" if self.in_pixels else "0 … 1"
        outside = np.asarray(~is_inside.all(axis=1))
        for k in np.flatnonzero(outside | is_flat).tolist():
            y1, x1, y2, x2 = photo.corners[k]
            rule = f"must be inside the photo, {edges}" if outside[k] else "must have an area"
            faults.append(
                f"{photo.file}: {photo.rows[k]}: {rule}, but has "
                f"x {x1:g} … {x2:g} and y {y1:g} … {y2:g}"
            )
        if faults:
            raise SampleError("; ".join(faults))
        target[: len(corners), 0] = photo.labels
        target[: len(corners), 1:] = inside
        return target


class BoxPart(FilePart):
    """Photos whose targets are boxes."""

    def __init__(
        self, tree: Tree, names: Sequence[str], decode: Decode, remarks: Remarks, boxes: SourceBoxes
    ) -> None:
        super().__init__(tree, names, None, decode, remarks)
        self._boxes = boxes

    def read(self, k: int) -> Sample:
        sample = super().read(k)
        height, width = sample.inputs[0].shape[:2]
        return Sample(sample.inputs, (self._boxes.target(self.file_of(k), height, width),))


def open_with_boxes(
    tree: Tree, decode: Decode, path: Path, classes: Sequence[str] = (), skip: bool = False
) -> Source:
    """Opens photos with boxes as targets.

    Args:
        tree: the photos.
        decode: bytes of a photo → array of its original size.
        path: file, folder or archive of annotations.
        classes: class names by number; empty for those of the annotations.
        skip: whether to leave out annotations of photos that are not there.

    Raises:
        DataError: if there are no annotations, or they have several formats.
    """
    annotation_tree = open_annotations(path)
    names, notes = files_of(tree, "image")
    if annotation_tree.name == tree.name:
        notes = []  # the other files are the annotations
    form, annotations, damaged = read_annotations(annotation_tree)
    known = PhotoNames(names)
    photos, faults = _match(annotations, known)
    for file in damaged:
        path_in_tree = PurePosixPath(file.name)
        try:
            name = known.find(path_in_tree.stem, str(path_in_tree.parent))
        except DataError:  # several photos, of which none is known to be that of the file
            name = None
        if name is None:
            faults.append(file.problem)
        else:
            photos.setdefault(name, PhotoBoxes(name, file.name)).faults.append(file.problem)
    if not photos:
        raise DataError(f"{path}: {'; '.join(faults)}.")
    class_list = _number_classes(path, annotations, photos.values(), classes)
    counts = [len(photo.corners) for photo in photos.values()]
    for photo, count in zip(photos.values(), counts, strict=True):
        if count > MAX_BOXES:
            photo.fault("", f"must have at most {MAX_BOXES} boxes, but has {count}")
    if not any(counts):
        raise DataError(f"{path}: must hold boxes, but has none.")
    if lacking := [name for name in names if name not in photos]:
        notes.append(
            f"{_photos(len(lacking))} without an annotation in {path}, taken as without boxes: "
            f"{listed(lacking)}"
        )
    left_out = _left_out(photos)
    notes += [f"{_noun(r, len(p))} left out: {listed(p)}" for r, p in left_out.items()]
    splits, wrong = _splits(tree, annotation_tree, names, photos, known, notes)
    faults += wrong
    if skip:
        notes += faults
    rows = max((n for n in counts if 0 < n <= MAX_BOXES), default=1)
    boxes = SourceBoxes(photos, annotations.in_pixels, rows)
    remarks = Remarks()
    return Source(
        tree.name,
        "image",
        {
            split: BoxPart(tree, members, decode, remarks, boxes)
            for split, members in splits.items()
        },
        decoded=True,
        notes=tuple(f"note: {tree.name}: {note}." for note in notes),
        remarks={tree.name: remarks},
        faults=() if skip else tuple(faults),
        origin={"files": sum(map(len, splits.values()))},
        boxes={
            "classes": [*class_list],
            "source": form.name,
            "left out": {reason[1]: len(p) for reason, p in left_out.items()},
        },
    )


def _match(annotations: Annotations, known: PhotoNames) -> tuple[dict[str, PhotoBoxes], list[str]]:
    """Returns the boxes by photo, and what is wrong with annotations of other photos."""
    photos: dict[str, PhotoBoxes] = {}
    faults: list[str] = []
    lacking: list[str] = []
    for photo in annotations.photos:
        try:
            name = known.find(photo.name, photo.folder)
            if name is None and photo.other_name:
                name = known.find(photo.other_name, photo.folder)
        except DataError as e:
            faults.append(f"{photo.file}: {e}")
            continue
        if name is None:
            lacking.append(f"{photo.file}: {printable(photo.other_name or photo.name)}")
        elif name in photos:
            photos[name].fault("", f"must be its only annotation, but {photo.file} is another")
        else:
            photos[name] = photo
    if lacking:
        count = len(lacking)
        noun = "1 annotation is" if count == 1 else f"{count} annotations are"
        faults.append(
            f"must have a photo for each annotation, but {noun} of none: {listed(lacking)}"
        )
    return photos, faults


def _number_classes(
    path: Path, annotations: Annotations, photos: Collection[PhotoBoxes], classes: Sequence[str]
) -> tuple[str, ...]:
    """Replaces labels by class numbers, and returns the class names.

    Labels that are numbers already have the names of the annotations, or else those of `classes`.

    Raises:
        DataError: if labels are numbers without names, or a class has two numbers.
    """
    named = annotations.classes or tuple(classes)
    if not named and any(isinstance(label, int) for photo in photos for label in photo.labels):
        raise DataError(f"{path}: {NO_CLASSES}.")
    words = {label for photo in photos for label in photo.labels if isinstance(label, str)}
    order = tuple(classes) or annotations.classes or tuple(sorted(words))
    if len({*order}) < len(order):
        raise DataError(f"{path}: must name each class once, but has {listed(order)}.")
    numbers = {name: number for number, name in enumerate(order)}
    rule = f"must have a class of {listed(order)}"
    for photo in photos:
        for k, label in enumerate(photo.labels):
            if isinstance(label, int) and not 0 <= label < len(named):
                photo.fault(
                    photo.rows[k], f"must have a class number below {len(named)}, but has {label}"
                )
                continue
            name = named[label] if isinstance(label, int) else label
            if name not in numbers:
                photo.fault(photo.rows[k], f"{rule}, but has {printable(name)}")
            photo.labels[k] = numbers.get(name, -1)
    return order


def _left_out(photos: Mapping[str, PhotoBoxes]) -> dict[Reason, list[str]]:
    """Returns the reasons why boxes were left out, with the photo of each box."""
    left_out: dict[Reason, list[str]] = {}
    for name, photo in photos.items():
        for reason in photo.left_out:
            left_out.setdefault(reason, []).append(name)
    return dict(sorted(left_out.items()))


def _splits(
    tree: Tree,
    annotations: Tree,
    names: Sequence[str],
    photos: Mapping[str, PhotoBoxes],
    known: PhotoNames,
    notes: list[str],
) -> tuple[dict[str, list[str]], list[str]]:
    """Returns the photos of each split, and what is wrong with lists of photos.

    Splits are those of lists, or else those that annotations state, or else folders of photos.
    """
    splits, faults = read_image_sets(annotations, known)
    if not splits and annotations.name != tree.name:
        splits, faults = read_image_sets(tree, known)
    if not splits:
        for name, photo in sorted(photos.items()):
            if photo.split:
                splits.setdefault(photo.split, []).append(name)
        if len(splits) < 2:  # one file may be named train or test and hold all photos
            parts = parts_of(names)
            splits = {part: [names[k] for k in numbers] for part, numbers in parts.items()}
            if len(splits) > 1:
                splits.pop(ALL, None)
    members = {name for split in splits.values() for name in split}
    if others := [name for name in names if name not in members]:
        notes.append(
            f"left out {_photos(len(others))} outside of {listed(splits)}: {listed(others)}"
        )
    return {split: splits[split] for split in ORDER if split in splits}, faults


def _noun(reason: Reason, count: int) -> str:
    return f"{count} {reason[count != 1]}"


def _photos(count: int) -> str:
    return _noun(("photo", "photos"), count)
