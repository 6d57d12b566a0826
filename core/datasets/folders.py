"""Opens folders of pictures or sounds: one folder per class, optionally below train/ and test/."""

import io
import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from odt.core.datasets.pictures import MOST_PIXELS, Resize, pillow
from odt.core.datasets.source import Kind, Part, Sample, SampleError, Source
from odt.core.datasets.tree import Tree
from odt.core.storage.reading import guard, listed, printable, reading
from odt.errors import DataError, OptionError
from odt.kernels.opdef import Array

PICTURES = (".jpg", ".jpeg", ".png", ".bmp", ".webp")
# Only these: Pillow would run another program for some formats, whatever a file is called.
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
    """A part whose samples are files and whose classes are folders."""

    def __init__(self, tree: Tree, names: Sequence[str], labels: Array, decode: Decode) -> None:
        self._tree = tree
        self._names = tuple(names)
        self._decode = decode
        self.length = len(self._names)
        self.labels = labels

    def read(self, k: int) -> Sample:
        assert self.labels is not None
        name = self._names[k]
        try:
            x = self._decode(self._tree.read(name, LIMIT))
        except DataError as e:
            where = self._tree.where(name)
            text = str(e)
            raise SampleError(text if text.startswith(where) else f"{where}: {text}") from e
        return Sample((x,), (self.labels[k],))

    def label_of(self, k: int) -> str:
        return printable(self._names[k])

    def groups(self, rule: str) -> Sequence[str]:
        try:
            pattern = re.compile(rule)
        except re.error as e:
            raise OptionError("group_by", f"{rule} must be a pattern", e) from e
        found = [pattern.search(name) for name in self._names]
        for name, match in zip(self._names, found, strict=True):
            if match is None:
                raise OptionError(
                    "group_by", f"{rule} must fit every file name", f"{printable(name)}"
                )
        return [m.group(1) if pattern.groups else m.group() for m in found if m is not None]


def open_folders(tree: Tree, kind: Kind, decode: Decode, skip: bool = False) -> Source:
    """Opens all files of one kind by part and class.

    Args:
        tree: folder or archive.
        kind: image or sound.
        decode: bytes of a file → array; raises DataError.
        skip: leave out classes without files.

    Raises:
        DataError: if there are no such files, the parts differ in classes, or a class is empty.
    """
    endings = PICTURES if kind == "image" else SOUNDS
    warnings.filterwarnings("ignore", module="PIL")  # what is wrong with a picture is said here
    found: dict[str, dict[str, list[str]]] = {}
    seen: dict[str, set[str]] = {}
    for folder in tree.empty:
        part, label = _place(PurePosixPath(folder))
        seen.setdefault(part, set()).add(label)
    for name in tree.sizes:
        part, label = _place(PurePosixPath(name).parent)
        if not label:
            continue
        seen.setdefault(part, set()).add(label)
        if name.lower().endswith(endings):
            found.setdefault(part, {}).setdefault(label, []).append(name)
    if not found:
        raise DataError(
            f"{tree.name}: must hold folders, one a class, with {' '.join(endings)} files, "
            "but has none."
        )
    if len(found) > 1:
        found.pop("all", None)  # a stray picture beside train/ and test/
    classes = tuple(sorted(found.get("train", next(iter(found.values())))))
    for part, by_class in found.items():
        unknown = sorted(set(by_class) - set(classes))
        if unknown:
            raise DataError(
                f"{tree.name}: {part} must have the classes of train ({listed(classes)}), "
                f"but got {listed(unknown)}."
            )
        empty = sorted((seen[part] | set(classes)) - set(by_class))
        if empty and not skip:
            raise DataError(
                f"{tree.name}: each class must have {' '.join(endings)} files, but in {part} "
                f'there are none of {listed(empty)}. Leave them out with `on_error="skip"`.'
            )
    parts = {}
    for part, by_class in found.items():
        names = [name for c in classes for name in by_class.get(c, [])]
        labels = [k for k, c in enumerate(classes) for _ in by_class.get(c, [])]
        parts[part] = FilePart(tree, names, np.asarray(labels, np.int32), decode)
    return Source(
        tree.name,
        kind,
        parts,
        classes,
        sorted_by_class=True,
        decoded=True,
        origin={"files": sum(p.length or 0 for p in parts.values())},
    )


def _place(folder: PurePosixPath) -> tuple[str, str]:
    """Part and class of a folder."""
    *above, label = folder.parts or ("",)
    return next((PARTS[f.lower()] for f in above if f.lower() in PARTS), "all"), label


def decode_picture(data: bytes, resize: Resize | None = None) -> Array:
    """Decodes a picture to uint8 (H, W, 3), rotated by its EXIF orientation.

    Args:
        data: bytes of the file.
        resize: size to resize to while decoding, which saves a copy; None for no resizing.

    Raises:
        DataError: if the file is damaged, too large, or has more than 8 bits per channel.
    """
    image = pillow()
    with reading("", "must be a sound picture"), image.open(io.BytesIO(data), formats=FORMATS) as p:
        guard("", len(data), 3 * p.width * p.height, most=MOST_FLAT)
        upright = _rgb(p)
        return np.asarray(upright if resize is None else resize.apply_to_image(upright))


def _rgb(picture: Any) -> Any:
    if picture.width * picture.height > MOST_PIXELS:
        raise ValueError(f"{picture.width}×{picture.height} pixels")
    if picture.mode[0] in "IF":
        raise ValueError(f"mode {picture.mode}, more than 8 bits a channel")
    turned = _upright(picture)
    return turned if turned.mode == "RGB" else turned.convert("RGB")


def _upright(picture: Any) -> Any:
    """Rotates a picture by its EXIF orientation; most pictures have none."""
    if 0x0112 not in picture.getexif():
        return picture
    from PIL import ImageOps

    return ImageOps.exif_transpose(picture)
