"""Targets of pictures and sounds that are no folders: a table of tags or values, and masks."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path, PurePosixPath

import numpy as np

from odt.core.storage.reading import guard, listed, printable, reading
from odt.datasets.file_suffixes import counted_files, split_by_kind
from odt.datasets.folders import LIMIT, Decode, FilePart, files_of, splits_of
from odt.datasets.picture_files import MAX_FLAT, opened_picture
from odt.datasets.pictures import Resize
from odt.datasets.source import Kind, Part, Remarks, Sample, SampleError, Source
from odt.datasets.table_cells import is_number
from odt.datasets.table_targets import read_targets
from odt.datasets.table_text import as_text, find_delimiter, rows_of
from odt.datasets.tables import plain_numbers
from odt.datasets.tree import Tree, unpacked
from odt.errors import DataError
from odt.kernels.rows.opdef import Array
from odt.text import quantity

SEPARATORS = re.compile(r"[\s;|,]+")  # between the tags of a cell
# Endings of the names of masks, before the suffix.
MASKS = ("_mask", "-mask", "_masks", "_seg", "_segmentation", "_label", "_labels", "_gt")
PLURAL = ("tags", "labels")  # names of a column whose cells may hold several words


class TargetPart(FilePart):
    """Files whose targets are values: tags, numbers or masks."""

    def __init__(
        self,
        tree: Tree,
        names: Sequence[str],
        target: Callable[[int], Array],
        decode: Decode,
        remarks: Remarks,
    ) -> None:
        super().__init__(tree, names, None, decode, remarks)
        self._target = target

    def read(self, k: int) -> Sample:
        sample = super().read(k)
        return Sample(sample.inputs, (self._target(k),))


def open_with_table(
    tree: Tree, kind: Kind, decode: Decode, path: Path, regression: bool | None = None
) -> Source:
    """Opens files with the targets in a table: file name, then a class, tags or values.

    Args:
        tree: folder or archive.
        kind: image or sound.
        decode: bytes of a file → array.
        path: table with a header. The first column names files; the others are one column with a
            class, a number or several tags, or a column for each tag or value.
        regression: whether cells are values; False if each cell is a class; None to decide by the
            cells: several words in one of them are tags.

    Raises:
        DataError: if the table names a file that is not there, or lacks a target, or its cells are
            no targets.
    """
    with reading(str(path), "must be a table of text"), closing(unpacked(path)) as data:
        text = as_text(data)
        delimiter = find_delimiter(text)
        numbered = [*rows_of(text, delimiter)]
    (_, header), *lines = numbered or [(1, [])]
    if len(header) < 2 or not lines:
        raise DataError(
            f"{path}: must have a header, and in each line a file name and its targets, but has "
            f"{len(lines)} lines and {len(header)} columns."
        )
    for number, row in lines:
        if len(row) != len(header):
            raise DataError(
                f"{path}: line {number}: must have {len(header)} cells, as the header, but has "
                f"{len(row)}."
            )
    rows = [row for _, row in lines]
    names, notes = _files(tree, kind, path, [cells[0].strip() for cells in rows])
    cells = [[cell.strip() for cell in row[1:]] for row in rows]
    columns = [name.strip() for name in header[1:]]
    # Numbers in a column named tags or labels are values.
    several = (
        regression is None
        and len(columns) == 1
        and (columns[0].lower() in PLURAL or any(SEPARATORS.search(row[0]) for row in cells))
    )
    if several and not all(is_number(row[0]) for row in cells):
        column = printable(columns[0])
        tags_of_rows = [set(filter(None, SEPARATORS.split(row[0]))) for row in cells]
        columns = sorted(set().union(*tags_of_rows))
        cells = [[str(int(name in tags)) for name in columns] for tags in tags_of_rows]
        if column.lower() not in PLURAL:
            notes.append(
                f"column {column} of {path} has several words in a cell, so they are read as tags: "
                f"{listed(columns)}. With `classification=True`, each cell is a class"
            )
    names, cells = _each_once(path, names, cells, notes)
    cells = plain_numbers(cells, delimiter)
    as_values = True if several else regression
    target, target_names, are_classes = read_targets(path, cells, columns, (), as_values)
    remarks = Remarks()

    def part(numbers: Sequence[int]) -> Part:
        names_of_part = [names[k] for k in numbers]
        if are_classes:
            return FilePart(tree, names_of_part, np.asarray(target)[numbers], decode, remarks)
        return TargetPart(
            tree, names_of_part, lambda k: np.asarray(target[numbers[k]]), decode, remarks
        )

    if are_classes:
        return _source(tree, kind, names, part, notes, remarks, classes=target_names)
    return _source(tree, kind, names, part, notes, remarks, tags=target_names)


def _each_once(
    path: Path, names: Sequence[str], cells: Sequence[list[str]], notes: list[str]
) -> tuple[list[str], list[list[str]]]:
    """Returns each file of a table once, with its targets.

    Args:
        path: the table.
        names: file of each line.
        cells: targets of each line.
        notes: what was left out; grows.

    Raises:
        DataError: if a file has several targets.
    """
    targets: dict[str, list[str]] = {}
    pairs = zip(names, cells, strict=True)
    if several := sorted({name for name, row in pairs if targets.setdefault(name, row) != row}):
        raise DataError(
            f"{path}: each file must have one target, but {listed(several)} has several. Give all "
            "tags of a file in one line."
        )
    if count := len(names) - len(targets):
        again = sorted(name for name, lines in Counter(names).items() if lines > 1)
        lines = quantity(count, "line")
        notes.append(f"left out {lines} of {path} that repeat one before: {listed(again)}")
    return [*targets], [*targets.values()]


def _source(
    tree: Tree,
    kind: Kind,
    names: Sequence[str],
    part: Callable[[Sequence[int]], Part],
    notes: list[str],
    remarks: Remarks,
    *,
    classes: Sequence[str] = (),
    tags: Sequence[str] = (),
) -> Source:
    """Returns a source of files in the splits that their folders name.

    Args:
        tree: folder or archive.
        kind: image or sound.
        names: names of the files.
        part: numbers of files → the part with these files.
        notes: what was left out; grows.
        remarks: what is done to files when they are read.
        classes: names of the classes; empty if targets are values.
        tags: names of the values; empty if they have none.
    """
    parts = splits_of(names, notes)
    return Source(
        tree.name,
        kind,
        {name: part(numbers) for name, numbers in parts.items()},
        tuple(classes),
        decoded=True,
        tags=tuple(tags),
        notes=tuple(f"note: {tree.name}: {note}." for note in notes),
        remarks={tree.name: remarks},
    )


def open_with_masks(
    tree: Tree, masks: Tree, decode: Decode, resize: Resize | None, classes: Sequence[str]
) -> Source:
    """Opens pictures with a mask each, a picture of the same name in another folder.

    Args:
        tree: the pictures.
        masks: the masks, in gray or with a palette. All names may end in _mask or the like.
        decode: bytes of a picture → array.
        resize: size of the pictures; masks are resized alike, by the nearest pixel.
        classes: names of the masks' values 0, 1, …, which become one-hot pixels; empty for masks
            of one object, where values above 0 become 1.

    Raises:
        DataError: if there are no pictures, or one has no mask.
    """
    names, notes = files_of(tree, "image")
    pictures, _ = files_of(masks, "image")
    endings = (e for e in MASKS if all(_stem(name).endswith(e) for name in pictures))
    ending = next(endings, "")
    by_stem = {_stem(name).removesuffix(ending): name for name in pictures}
    lacking = [name for name in names if _stem(name) not in by_stem]
    if lacking:
        raise DataError(
            f"{masks.name}: must hold a mask for each picture, under its name, but has none for "
            f"{listed(lacking)}."
        )
    if others := sorted({*by_stem} - {_stem(name) for name in names}):
        shown = listed([by_stem[stem] for stem in others])
        notes.append(
            f"left out {counted_files(len(others))} of {masks.name} without an image: {shown}"
        )
    nearest = None if resize is None else replace(resize, method="nearest")

    def target(picture: str) -> Array:
        name = by_stem[_stem(picture)]
        mask = _decode_mask(masks.where(name), masks.read(name, LIMIT))
        if nearest is not None:
            mask = nearest.apply(mask)
        if not classes:
            return np.asarray(mask > 0, np.float32)
        if mask.max() >= len(classes):
            raise SampleError(
                f"{masks.where(name)}: values must be 0 … {len(classes) - 1}, one for each of "
                f"`classes=`, but got {mask.max()}."
            )
        return np.eye(len(classes), dtype=np.float32)[mask[..., 0]]

    remarks = Remarks()

    def part(numbers: Sequence[int]) -> Part:
        names_of_part = [names[k] for k in numbers]
        return TargetPart(tree, names_of_part, lambda k: target(names_of_part[k]), decode, remarks)

    return _source(tree, "image", names, part, notes, remarks, tags=classes)


def _decode_mask(where: str, data: bytes) -> Array:
    """Returns the values of a mask (H, W, 1): gray values, or numbers in a palette."""
    with opened_picture(where, "must be a valid mask", data) as p:
        guard(where, len(data), p.width * p.height, most=MAX_FLAT)
        if p.mode not in ("1", "L", "P"):
            raise DataError(
                f"{where}: must be a mask of at most 8 bits, gray or with a palette, but is in "
                f"Pillow's mode {p.mode}. Convert it to a gray PNG."
            )
        return np.asarray(p, np.uint8)[..., np.newaxis]


def _stem(name: str) -> str:
    return str(PurePosixPath(name).with_suffix(""))


def _files(tree: Tree, kind: Kind, path: Path, texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """Returns the files that a table names by path, or by a name that one file has; and notes.

    Raises:
        DataError: for a name that no file has, or several.
    """
    names, _ = split_by_kind(tree.sizes, kind)
    by_name: dict[str, list[str]] = {}
    by_stem: dict[str, list[str]] = {}  # tables may name files without their suffix
    for name in names:
        by_name.setdefault(PurePosixPath(name).name, []).append(name)
        by_stem.setdefault(PurePosixPath(name).stem, []).append(name)
    paths = []
    lacking = []
    for text in texts:
        last = PurePosixPath(text).name
        same = [text] if text in tree.sizes else by_name.get(last) or by_stem.get(last, [])
        if len(same) == 1:
            paths.append(same[0])
        else:
            lacking.append(printable(text))
    if lacking:
        raise DataError(
            f"{path}: must name files of {tree.name}, each by a path or a name of its own, but got "
            f"{listed(lacking)}."
        )
    others = sorted({*names} - {*paths})
    notes = [f"left out {counted_files(len(others))} that {path} does not name: {listed(others)}"]
    return paths, notes if others else []
