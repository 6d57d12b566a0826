"""Reads a file, folder or archive of annotations; their content tells the format."""

import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from odt.core.storage.reading import listed, reading
from odt.dataclass import dataclass
from odt.datasets.boxes import coco, createml, csv, edge_impulse, voc, yolo
from odt.datasets.boxes.annotation import AnnotationFile, Annotations, BoxFormat
from odt.datasets.boxes.file_contents import READERS, content_of
from odt.datasets.class_folders import SPLITS
from odt.datasets.file_suffixes import counted_files, suffix_of
from odt.datasets.tree import FileTree, Tree, open_tree
from odt.errors import DataError

FORMATS: tuple[BoxFormat, ...] = (
    *(voc.FORMAT, coco.FORMAT, yolo.FORMAT),
    *(csv.FORMAT, edge_impulse.FORMAT, createml.FORMAT),
)
WORDS = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class DamagedFile:
    """A file that cannot be read.

    Attributes:
        name: path in its folder or archive.
        problem: the reason, with the name of the file.
    """

    name: str
    problem: str


def open_annotations(path: Path) -> Tree:
    """Opens a folder or archive, or a single file.

    Raises:
        DataError: if there is no such file.
    """
    is_file = path.is_file() and suffix_of(path.name) in READERS
    return FileTree(path) if is_file else open_tree(path)


def read_annotations(tree: Tree) -> tuple[BoxFormat, Annotations, list[DamagedFile]]:
    """Reads all annotations; files that are none are passed over.

    Returns:
        The format, the annotations, and the files that cannot be read.

    Raises:
        DataError: if there are no annotations, or they have several formats.
    """
    annotations: dict[str, Annotations] = {}
    files: dict[str, list[str]] = {}
    damaged: list[DamagedFile] = []
    blank: list[AnnotationFile] = []  # of photos without boxes, if the format is YOLO
    for name in tree.sizes:
        if suffix_of(name) not in READERS:
            continue
        try:
            file = _read(tree, name)
        except DataError as e:
            damaged.append(DamagedFile(name, str(e).removesuffix(".")))
            continue
        if suffix_of(name) == ".txt" and not any(map(str.strip, file.content)):
            blank.append(file)
        for form in FORMATS:
            if suffix_of(name) in form.suffixes and form.fits(file):
                with reading(file.where, f"must be in the format of {form.title}"):
                    form.read(file, annotations.setdefault(form.name, Annotations()))
                files.setdefault(form.name, []).append(name)
    # Names of classes alone, such as classes.txt, are no format.
    formats = [f for f in FORMATS if f.name in annotations and annotations[f.name].photos]
    if len(formats) > 1:
        counts = ", ".join(f"{f.title} ({_shown(files[f.name])})" for f in formats)
        raise DataError(
            f"{tree.name}: annotations must have one format, but have {counts}. Give the file or "
            "folder of one of them."
        )
    if not formats:
        got = damaged[0].problem if damaged else f"{counted_files(len(tree.sizes))} of other kinds"
        titles = ", ".join(form.title for form in FORMATS)
        raise DataError(f"{tree.name}: must hold boxes ({titles}), but got: {got}.")
    (form,) = formats
    for file in blank if form is yolo.FORMAT else ():
        form.read(file, annotations[form.name])
    damaged = [file for file in damaged if suffix_of(file.name) in form.suffixes]
    return form, annotations[form.name], damaged


def _read(tree: Tree, name: str) -> AnnotationFile:
    limit, _, _ = READERS[suffix_of(name)]
    content = content_of(tree.where(name), tree.read(name, limit))
    folder = str(PurePosixPath(name).parent)
    return AnnotationFile(name, tree.where(name), folder, _split_of(name), content)


def _split_of(name: str) -> str:
    """Returns the split in the name of a file, such as instances_train2017.json; else nothing."""
    words = (word.lower() for word in WORDS.findall(PurePosixPath(name).stem))
    splits = {SPLITS[word] for word in words if word in SPLITS}
    return splits.pop() if len(splits) == 1 else ""


def _shown(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} files such as {listed(names[:1])}"
