"""Opens folders of images or sounds: one folder per class, optionally in train/ and test/."""

import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePosixPath

import numpy as np

from odt.core.storage.reading import listed, printable
from odt.dataclass import dataclass
from odt.datasets.class_folders import ALL, Place, place_files
from odt.datasets.file_suffixes import (
    counted_files,
    shown_suffixes,
    split_by_kind,
    suffix_counts,
)
from odt.datasets.source import Kind, Part, Remark, Remarks, Sample, SampleError, Source
from odt.datasets.tree import Tree
from odt.errors import DataError, OptionError
from odt.kernels.rows.opdef import Array

LIMIT = 1 << 28  # bytes of one file
NOISE = "_background_noise_"  # folder of Speech Commands whose recordings are no class
ORDER = ("train", "validation", "test", ALL)

Decode = Callable[[bytes], tuple[Array, Sequence[Remark]]]


class FilePart(Part):
    """A part whose samples are files; labels are None for files without classes."""

    def __init__(
        self,
        tree: Tree,
        names: Sequence[str],
        labels: Array | None,
        decode: Decode,
        remarks: Remarks,
    ) -> None:
        self._tree = tree
        self._names = tuple(names)
        self._decode = decode
        self._remarks = remarks
        self.length = len(self._names)
        self.labels = labels

    def read(self, k: int) -> Sample:
        name = self._names[k]
        try:
            x, remarks = self._decode(self._tree.read(name, LIMIT))
        except DataError as e:
            where = self._tree.where(name)
            text = str(e)
            raise SampleError(text if text.startswith(where) else f"{where}: {text}") from e
        self._remarks.add(name, remarks)
        return Sample((x,), () if self.labels is None else (self.labels[k],))

    def label_of(self, k: int) -> str:
        return printable(self._names[k])

    def file_of(self, k: int) -> str:
        return self._names[k]

    def groups(self, rule: str) -> Sequence[str]:
        return matches(rule, self._names)


def matches(rule: str, names: Sequence[str]) -> list[str]:
    """Returns the group of each file: the first group of a pattern in its name, or its match.

    Raises:
        OptionError: if the rule is no pattern, or does not match a name.
    """
    try:
        pattern = re.compile(rule)
    except re.error as e:
        raise OptionError("group_by", f"{rule} must be a pattern", e) from e
    groups = []
    for name in names:
        match = pattern.search(name)
        group = match and match[1 if pattern.groups else 0]
        if group is None:
            raise OptionError("group_by", f"{rule} must match every file name", printable(name))
        groups.append(group)
    return groups


@dataclass(frozen=True, slots=True)
class Naming:
    """How the class of a file is determined.

    Attributes:
        pattern: regular expression whose first group in a file's name is the class; empty for the
            name of a folder.
        unlabelled: whether to take all files without classes.
        classes: class names of a record: files have classes only if these are their folders.
        labeled: whether only files with classes of the record are taken.
        are_values: whether names are numbers to predict, which may differ from split to split.
    """

    pattern: str = ""
    unlabelled: bool = False
    classes: tuple[str, ...] | None = None
    labeled: bool = False
    are_values: bool = False


BY_FOLDER = Naming()


def open_folders(
    tree: Tree, kind: Kind, decode: Decode, skip: bool = False, naming: Naming = BY_FOLDER
) -> Source:
    """Opens all files of one kind by part and class.

    Args:
        tree: folder or archive.
        kind: image or sound.
        decode: bytes of a file → array, and what was done to it; raises DataError.
        skip: whether to leave out classes without files, and classes that the first part lacks.
        naming: how the class of a file is found.

    Raises:
        DataError: if there are no such files, or the parts differ in classes.
    """
    warnings.filterwarnings("ignore", module="PIL")  # errors in images are reported here
    names, notes = files_of(tree, kind)
    if naming.classes is not None:
        return _open_new(tree, kind, decode, names, naming, notes)
    if naming.unlabelled:
        return _open_unlabelled(tree, kind, decode, names, notes)
    places = place_files(names, by_folder=not naming.pattern)
    labels = [place.label for place in places]
    if naming.pattern:
        find = _pattern_label(tree, naming.pattern)
        labels = [find(name, place) for name, place in zip(names, places, strict=True)]
    files = _by_class(tree, kind, names, places, labels, notes)
    deeper = [p for p in places if p.split == ALL and p.label and "/" in _inner(p)]
    if deeper and ALL in files and not naming.pattern:
        notes.append(
            f"{counted_files(len(deeper))} in folders below those of their classes, such as "
            f"{printable(deeper[0].below)}: the first folder is the class. For the last one give "
            "`label_pattern=([^/]+)/[^/]*$`"
        )
    faults: list[str] = []
    if naming.are_values:
        classes = tuple(sorted({label for by_class in files.values() for label in by_class}))
    else:
        first_part = _sorted(files)[0]  # train, if there is one
        classes = tuple(sorted(files[first_part]))
        folders = {} if naming.pattern else _folders(tree, places)
        for part in _sorted(files):
            faults += _check_classes(
                tree,
                kind,
                part,
                files[part],
                first_part=first_part,
                classes=classes,
                folders=folders.get(part, set()),
                skip=skip,
                notes=notes,
            )
    remarks = Remarks()
    parts = {}
    for part in _sorted(files):
        by_class = files[part]
        ordered = [name for c in classes for name in by_class.get(c, [])]
        numbers = [k for k, c in enumerate(classes) for _ in by_class.get(c, [])]
        parts[part] = FilePart(tree, ordered, np.asarray(numbers, np.int32), decode, remarks)
    return Source(
        tree.name,
        kind,
        parts,
        classes,
        sorted_by_class=True,
        decoded=True,
        notes=_notes(tree, notes),
        remarks={tree.name: remarks},
        faults=tuple(faults),
        origin={"files": sum(p.length or 0 for p in parts.values())},
    )


def _by_class(
    tree: Tree,
    kind: Kind,
    names: Sequence[str],
    places: Sequence[Place],
    labels: Sequence[str],
    notes: list[str],
) -> dict[str, dict[str, list[str]]]:
    """Returns the files by split and class; adds notes about files that are in none.

    Raises:
        DataError: if no file has a class.
    """
    files: dict[str, dict[str, list[str]]] = {}
    for name, place, label in zip(names, places, labels, strict=True):
        if label:
            files.setdefault(place.split, {}).setdefault(label, []).append(name)
    if not files:
        raise DataError(_nothing(tree, kind, names))
    if len(files) > 1:
        files.pop(ALL, None)
    outside = [name for name, p in zip(names, places, strict=True) if p.split not in files]
    if outside and ALL not in files:
        count = counted_files(len(outside))
        notes.append(f"left out {count} outside of {listed(_sorted(files))}: {listed(outside)}")
    without_class = [
        name
        for name, place, label in zip(names, places, labels, strict=True)
        if place.split in files and not label
    ]
    if without_class:
        count = counted_files(len(without_class))
        notes.append(f"left out {count} outside of class folders: {listed(without_class)}")
    return files


def _inner(place: Place) -> str:
    """Returns the path of a file below the folder of its class."""
    return str(PurePosixPath(place.below).relative_to(place.folder))


def files_of(tree: Tree, kind: Kind) -> tuple[list[str], list[str]]:
    """Returns the files of a kind, and what is left out of a folder or archive.

    Raises:
        DataError: if there are no such files.
    """
    names, others = split_by_kind(tree.sizes, kind)
    notes = []
    if others:
        noun = "images" if kind == "image" else "sounds"
        notes.append(
            f"left out {counted_files(len(others))} other than {noun}: {suffix_counts(others)}"
        )
    if tree.links:
        notes.append(f"left out {_links(tree.links)}")
    if kind == "sound":
        noise = [name for name in names if NOISE in PurePosixPath(name).parts]
        if noise and len(noise) < len(names):
            names = [name for name in names if NOISE not in PurePosixPath(name).parts]
            notes.append(f"left out {counted_files(len(noise))} in {NOISE}: noise is no class")
    if not names:
        raise DataError(_nothing(tree, kind, names))
    return names, notes


def _links(count: int) -> str:
    if count == 1:
        return "1 symbolic link, which leads back or is in an archive"
    return f"{count} symbolic links, which lead back or are in an archive"


def parts_of(names: Sequence[str]) -> dict[str, list[int]]:
    """Returns the numbers of the files of each split; all of them as "all" without splits."""
    parts: dict[str, list[int]] = {}
    for k, place in enumerate(place_files(names)):
        parts.setdefault(place.split, []).append(k)
    return {part: parts[part] for part in _sorted(parts)}


def splits_of(names: Sequence[str], notes: list[str]) -> dict[str, list[int]]:
    """Returns the numbers of the files of each split; files outside of all splits are left out.

    Args:
        names: paths of the files.
        notes: what was left out; grows.
    """
    parts = parts_of(names)
    if len(parts) > 1 and (outside := parts.pop(ALL, [])):
        notes.append(f"left out {counted_files(len(outside))} outside of {listed(parts)}")
    return parts


def _notes(tree: Tree, notes: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"note: {tree.name}: {note}." for note in notes)


def _sorted(parts: Iterable[str]) -> list[str]:
    return sorted(parts, key=ORDER.index)


def _check_classes(
    tree: Tree,
    kind: Kind,
    part: str,
    by_class: dict[str, list[str]],
    *,
    first_part: str,
    classes: Sequence[str],
    folders: set[str],
    skip: bool,
    notes: list[str],
) -> list[str]:
    """Returns the faults in the classes of a part; adds notes instead if faults are skipped.

    Args:
        tree: folder or archive.
        kind: image or sound.
        part: name of the part.
        by_class: files of the part by class.
        first_part: name of the part whose classes all parts must have.
        classes: these classes.
        folders: folders of classes in the part, also of those without files.
        skip: whether faults are skipped.
        notes: what was left out; grows.
    """
    faults = []
    if unknown := sorted({*by_class} - {*classes}):
        if skip:
            count = sum(len(by_class[label]) for label in unknown)
            why = f"{first_part} has no class {listed(unknown)}"
            notes.append(f"left out {counted_files(count)} of {part}: {why}")
        else:
            faults.append(
                f"{part} must have the classes of {first_part} ({listed(classes)}), but got "
                f"{listed(unknown)}. Add files of these classes to {first_part}, or leave them out "
                'with `on_error="skip"`'
            )
    where = "" if part == ALL else f"in {part} "
    if empty := sorted((folders | {*classes}) - {*by_class}):
        _, others = split_by_kind(tree.sizes, kind)
        inside = [name for name in others if {*empty} & {*PurePosixPath(name).parts[:-1]}]
        contents = f", which have {suffix_counts(inside)}" if inside else ""
        if skip:
            notes.append(f"no files {where}for {listed(empty)}{contents}")
        else:
            faults.append(
                f"each class must have {shown_suffixes(kind)} files, but got none {where}for "
                f"{listed(empty)}{contents}. Remove these folders, or leave them out with "
                '`on_error="skip"`'
            )
    return faults


def _open_unlabelled(
    tree: Tree, kind: Kind, decode: Decode, names: Sequence[str], notes: list[str]
) -> Source:
    """Opens all files without classes, in the splits that their folders name."""
    remarks = Remarks()
    parts = splits_of(names, notes)
    return Source(
        tree.name,
        kind,
        {
            part: FilePart(tree, [names[k] for k in numbers], None, decode, remarks)
            for part, numbers in parts.items()
        },
        decoded=True,
        notes=_notes(tree, notes),
        remarks={tree.name: remarks},
        origin={"files": sum(map(len, parts.values()))},
    )


def _open_new(
    tree: Tree,
    kind: Kind,
    decode: Decode,
    names: Sequence[str],
    naming: Naming,
    notes: list[str],
) -> Source:
    """Opens all files as one part, with classes if their folders are those of a record."""
    number = {name: k for k, name in enumerate(naming.classes or ())}
    folders = [_folder_of(PurePosixPath(name).parent.parts, number) for name in names]
    others = [folder for folder in folders if folder not in number]
    has_labels = len(others) < len(folders)
    labeled = has_labels and (naming.labeled or not others)
    shown = listed(sorted({folder or "." for folder in others}))
    unknown = f"{counted_files(len(others))} in folders that are no class of the record: {shown}"
    if labeled and others:
        notes.append(f"left out {unknown}")
        names = [name for name, f in zip(names, folders, strict=True) if f in number]
        folders = [folder for folder in folders if folder in number]
    elif has_labels and not labeled:
        notes.append(f"no labels, because of {unknown}")
    labels = np.asarray([number[f] for f in folders], np.int32) if labeled else None
    remarks = Remarks()
    return Source(
        tree.name,
        kind,
        {ALL: FilePart(tree, names, labels, decode, remarks)},
        tuple(number) if labeled else (),
        decoded=True,
        notes=_notes(tree, notes),
        remarks={tree.name: remarks},
        origin={"files": len(names)},
    )


def _folder_of(parts: Sequence[str], classes: Iterable[str]) -> str:
    """Returns the folder of a path that names a class; else the last one, or nothing."""
    class_names = {*classes}
    for folder in parts:
        if folder in class_names:
            return folder
    return parts[-1] if parts else ""


def _folders(tree: Tree, places: Sequence[Place]) -> dict[str, set[str]]:
    """Returns the names of all class folders of each part, also of those without files.

    A folder without files counts if it is beside a class folder with files.
    """
    parents = {(place.split, place.folder.parent) for place in places if place.label}
    folders = {PurePosixPath(folder) for folder in tree.empty}
    folders |= {PurePosixPath(name).parent for name in tree.sizes}
    folders |= {above for folder in folders for above in folder.parents}
    by_split: dict[str, set[str]] = {}
    for folder in folders:
        for split, parent in parents:
            if folder.name not in ("", NOISE) and folder.parent == parent:
                by_split.setdefault(split, set()).add(folder.name)
    return by_split


def _nothing(tree: Tree, kind: Kind, names: Sequence[str]) -> str:
    """Returns the message about a folder without classes of such files."""
    rule = f"{tree.name}: must hold folders, one per class, with {shown_suffixes(kind)} files"
    if names:
        return (
            f"{rule}, but has {len(names)} of them outside folders, such as "
            f"{printable(names[0])}. Name their classes with `label_pattern=`, or give "
            "`unlabelled=True`."
        )
    if not tree.sizes:
        return f"{rule}, but has none."
    remedy = "Unpack tables and arrays, and give each as `source=` of its own."
    contents = suffix_counts(tree.sizes)
    if "(" in contents:  # remedies for some of the suffixes
        return f"{rule}, but has none: it holds {contents}."
    return f"{rule}, but has none: it holds {contents} files. {remedy}"


def _pattern_label(tree: Tree, text: str) -> Callable[[str, Place], str]:
    """Returns the function that finds the label of a file by a pattern.

    It searches the file's name first, or its path if the pattern has a slash.
    """
    try:
        pattern = re.compile(text)
    except re.error as e:
        raise OptionError("label_pattern", f"{text} must be a pattern", e) from e

    def label(name: str, place: Place) -> str:
        file = PurePosixPath(name).name
        paths = (place.below, name)
        candidates = (*paths, file) if "/" in text else (file, *paths)
        for candidate in candidates:
            match = pattern.search(candidate)
            if match and (group := match.group(1 if pattern.groups else 0)):
                return str(group)
        raise DataError(
            f"{tree.name}: `label_pattern=` {text} must match every file name, but not "
            f"{printable(name)}."
        )

    return label
