"""Opens folders of images or sounds: one folder per class, optionally in train/ and test/."""

import io
import re
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from odt.core.datasets.pictures import MOST_PIXELS, Resize, pillow
from odt.core.datasets.source import Kind, Part, Sample, SampleError, Source
from odt.core.datasets.tree import Tree
from odt.core.storage.reading import guard, listed, printable, reading
from odt.dataclass import dataclass
from odt.errors import DataError, OptionError
from odt.kernels.opdef import Array

PICTURES = (".jpg", ".jpeg", ".png", ".bmp", ".webp")
# Only these formats: for some others Pillow runs a program, whatever the file's name.
FORMATS = ("JPEG", "PNG", "BMP", "WEBP")
SOUNDS = (".wav",)
LIMIT = 1 << 28  # bytes of one file
MOST_FLAT = 1 << 27  # bytes of a picture that its file, of one colour perhaps, has hardly any of
PARTS = {
    "train": "train",
    "training": "train",
    "test": "test",
    "testing": "test",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
}

Decode = Callable[[bytes], Array]


class FilePart(Part):
    """A part whose samples are files; labels are None for files without classes."""

    def __init__(
        self, tree: Tree, names: Sequence[str], labels: Array | None, decode: Decode
    ) -> None:
        self._tree = tree
        self._names = tuple(names)
        self._decode = decode
        self.length = len(self._names)
        self.labels = labels

    def read(self, k: int) -> Sample:
        name = self._names[k]
        try:
            x = self._decode(self._tree.read(name, LIMIT))
        except DataError as e:
            where = self._tree.where(name)
            text = str(e)
            raise SampleError(text if text.startswith(where) else f"{where}: {text}") from e
        return Sample((x,), () if self.labels is None else (self.labels[k],))

    def label_of(self, k: int) -> str:
        return printable(self._names[k])

    def groups(self, rule: str) -> Sequence[str]:
        try:
            pattern = re.compile(rule)
        except re.error as e:
            raise OptionError("group_by", f"{rule} must be a pattern", e) from e
        matches = [pattern.search(name) for name in self._names]
        for name, match in zip(self._names, matches, strict=True):
            if match is None:
                raise OptionError(
                    "group_by", f"{rule} must match every file name", f"{printable(name)}"
                )
        return [m.group(1) if pattern.groups else m.group() for m in matches if m is not None]


@dataclass(frozen=True, slots=True)
class Naming:
    """How the class of a file is determined.

    Attributes:
        pattern: regular expression whose first group in a file's path is the class; empty for the
            name of the file's folder.
        unlabelled: take all files without classes.
        classes: class names of a record: files have classes only if these are their folders.
    """

    pattern: str = ""
    unlabelled: bool = False
    classes: tuple[str, ...] | None = None


BY_FOLDER = Naming()


def open_folders(
    tree: Tree, kind: Kind, decode: Decode, skip: bool = False, naming: Naming = BY_FOLDER
) -> Source:
    """Opens all files of one kind by part and class.

    Args:
        tree: folder or archive.
        kind: image or sound.
        decode: bytes of a file → array; raises DataError.
        skip: leave out classes without files.
        naming: how the class of a file is found.

    Raises:
        DataError: if there are no such files, or the parts differ in classes.
    """
    suffixes = PICTURES if kind == "image" else SOUNDS
    warnings.filterwarnings("ignore", module="PIL")  # errors in images are reported here
    names = [name for name in tree.sizes if name.lower().endswith(suffixes)]
    if naming.unlabelled or naming.classes is not None:
        return _open_files(tree, kind, decode, names, naming)
    label_of = _pattern_label(tree, naming.pattern) if naming.pattern else _folder_label
    files: dict[str, dict[str, list[str]]] = {}
    for name in names:
        part, label = _place(PurePosixPath(name).parent)[0], label_of(name)
        if label:
            files.setdefault(part, {}).setdefault(label, []).append(name)
    if not files:
        raise DataError(_nothing(tree, suffixes, names))
    if len(files) > 1:
        files.pop("all", None)  # a stray image next to train/ and test/
    classes = tuple(sorted(files.get("train", next(iter(files.values())))))
    seen = {part: set[str]() for part in files} if naming.pattern else _folders(tree, files)
    faults = []
    for part, by_class in files.items():
        unknown = sorted(set(by_class) - set(classes))
        if unknown:
            raise DataError(
                f"{tree.name}: {part} must have the classes of train ({listed(classes)}), "
                f"but got {listed(unknown)}."
            )
        empty = sorted((seen[part] | set(classes)) - set(by_class))
        if empty and not skip:
            where = "" if part == "all" else f"in {part} "
            faults.append(
                f"each class must have {' '.join(suffixes)} files, but got none {where}for "
                f'{listed(empty)}. Remove these folders, or leave them out with `on_error="skip"`'
            )
    parts = {}
    for part, by_class in files.items():
        ordered = [name for c in classes for name in by_class.get(c, [])]
        labels = [k for k, c in enumerate(classes) for _ in by_class.get(c, [])]
        parts[part] = FilePart(tree, ordered, np.asarray(labels, np.int32), decode)
    return Source(
        tree.name,
        kind,
        parts,
        classes,
        sorted_by_class=True,
        decoded=True,
        faults=tuple(faults),
        origin={"files": sum(p.length or 0 for p in parts.values())},
    )


def _open_files(
    tree: Tree, kind: Kind, decode: Decode, names: Sequence[str], naming: Naming
) -> Source:
    """All files as one part; their folders are classes if all of them are those of a record."""
    if not names:
        endings = PICTURES if kind == "image" else SOUNDS
        raise DataError(_nothing(tree, endings, names))
    number = {name: k for k, name in enumerate(naming.classes or ())}
    folders = [PurePosixPath(name).parent.name for name in names]
    labelled = not naming.unlabelled and {*folders} <= number.keys()
    labels = np.asarray([number[f] for f in folders], np.int32) if labelled else None
    part = FilePart(tree, names, labels, decode)
    others = sorted({*folders} - number.keys() - {""})
    note = f"note: {tree.name}: {listed(others)} are no classes of the record: no labels."
    return Source(
        tree.name,
        kind,
        {"all": part},
        tuple(number) if labelled else (),
        decoded=True,
        notes=(note,) if naming.classes and others and len(others) < len({*folders}) else (),
        origin={"files": len(names)},
    )


def _folders(tree: Tree, found: Collection[str]) -> dict[str, set[str]]:
    """The names of all folders of each part, also of those without such files."""
    seen = {part: set[str]() for part in found}
    for folder in (*tree.empty, *{str(PurePosixPath(name).parent) for name in tree.sizes}):
        part, label = _place(PurePosixPath(folder))
        if label and part in seen:
            seen[part].add(label)
    return seen


def _nothing(tree: Tree, endings: Sequence[str], names: Sequence[str]) -> str:
    """What is wrong with a folder without classes of such files, and what to do."""
    rule = f"{tree.name}: must hold folders, one a class, with {' '.join(endings)} files"
    if names:
        return (
            f"{rule}, but has {len(names)} of them outside folders. Name their classes with "
            "`label_pattern=`, or give `unlabelled=True`."
        )
    suffixes = Counter(PurePosixPath(name).suffix.lower() or "other" for name in tree.sizes)
    if not suffixes:
        return f"{rule}, but has none."
    shown = ", ".join(f"{count} {suffix}" for suffix, count in suffixes.most_common(5))
    return (
        f"{rule}, but has none: it holds {shown} files. Unpack tables and arrays, and give each "
        "as `source=` of its own."
    )


def _folder_label(name: str) -> str:
    return _place(PurePosixPath(name).parent)[1]


def _pattern_label(tree: Tree, text: str) -> Callable[[str], str]:
    """The label of a file by a pattern."""
    try:
        pattern = re.compile(text)
    except re.error as e:
        raise OptionError("label_pattern", f"{text} must be a pattern", e) from e

    def label(name: str) -> str:
        match = pattern.search(name) or pattern.search(PurePosixPath(name).name)
        if match is None:
            raise DataError(
                f"{tree.name}: `label_pattern=` {text} must match every file name, but not "
                f"{printable(name)}."
            )
        return str(match.group(1) if pattern.groups else match.group())

    return label


def _place(folder: PurePosixPath) -> tuple[str, str]:
    """Returns part and class of a folder."""
    *above, label = folder.parts or ("",)
    return next((PARTS[f.lower()] for f in above if f.lower() in PARTS), "all"), label


def decode_picture(data: bytes, resize: Resize | None = None) -> Array:
    """Decodes an image to uint8 (H, W, 3), rotated by its EXIF orientation.

    Args:
        data: bytes of the file.
        resize: resizing during decoding, which saves a copy; None for no resizing.

    Raises:
        DataError: if the file is damaged, too large, or has more than 8 bits per channel.
    """
    image = pillow()
    with reading("", "must be a valid image"), image.open(io.BytesIO(data), formats=FORMATS) as p:
        guard("", len(data), 3 * p.width * p.height, most=MOST_FLAT)
        upright = _rgb(p)
        return np.asarray(upright if resize is None else resize.apply_to_image(upright))


def _rgb(picture: Any) -> Any:
    if picture.width * picture.height > MOST_PIXELS:
        raise ValueError(f"{picture.width}×{picture.height} pixels")
    if picture.mode[0] in "IF":
        raise ValueError(f"mode {picture.mode}, more than 8 bits per channel")
    turned = _upright(picture)
    return turned if turned.mode == "RGB" else turned.convert("RGB")


def _upright(picture: Any) -> Any:
    """Rotates an image by its EXIF orientation; most images have none."""
    if 0x0112 not in picture.getexif():
        return picture
    from PIL import ImageOps

    return ImageOps.exif_transpose(picture)
