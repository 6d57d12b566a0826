"""Opens a source of samples in the format that it has or that --format gives."""

import re
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from odt.core.datasets.arrays import ArrayOptions, open_arrays
from odt.core.datasets.folders import PICTURES, SOUNDS, decode_picture, open_folders
from odt.core.datasets.pictures import Resize
from odt.core.datasets.sounds import Sound
from odt.core.datasets.source import Source
from odt.core.datasets.streams import open_callable, open_hugging_face, open_tfds
from odt.core.datasets.tables import TableOptions, open_table
from odt.core.datasets.tree import Tree, open_tree
from odt.core.storage.reading import reading
from odt.errors import DataError

FORMATS = (
    "auto", "images", "wav", "csv", "tsv", "text", "npy", "npz", "hdf5", "raw",
    "callable", "tfds", "huggingface",
)  # fmt: skip
ENDINGS = {
    ".csv": "csv", ".tsv": "tsv", ".txt": "text", ".data": "text", ".npy": "npy", ".npz": "npz",
    ".h5": "hdf5", ".hdf5": "hdf5", ".bin": "raw", ".raw": "raw",
}  # fmt: skip
ARCHIVES = (".zip", ".tar", ".tgz", ".tbz2", ".txz", ".tar.gz", ".tar.bz2", ".tar.xz")
DELIMITERS = {"csv": "", "tsv": "\t", "text": " "}


@dataclass(frozen=True, slots=True)
class Opening:
    """Options for opening a source.

    Attributes:
        text: path, module:function, tfds:NAME or hf:NAME.
        targets: path of a second file with the targets.
        data_dir: folder of data for TensorFlow Datasets and Hugging Face.
        skip: leave out files and lines that cannot be used.
        resize: size of pictures, if no other step precedes the resizing.
    """

    text: str
    format: str = "auto"
    targets: Path | None = None
    data_dir: Path | None = None
    table: TableOptions = field(default_factory=TableOptions)
    arrays: ArrayOptions = field(default_factory=ArrayOptions)
    sound: Sound = field(default_factory=Sound)
    skip: bool = False
    resize: Resize | None = None


def open_source(opening: Opening) -> Source:
    """Opens a source of any format.

    Raises:
        DataError: if the source does not exist, or is not valid in its format.
    """
    path, text = Path(opening.text), opening.text
    form = _format(path, opening)
    data_dir = None if opening.data_dir is None else str(opening.data_dir)
    if form == "tfds":
        return open_tfds(text.removeprefix("tfds:"), data_dir)
    if form == "huggingface":
        return open_hugging_face(text.removeprefix("hf:"), data_dir)
    if form == "callable":
        return open_callable(text, opening.arrays.classes)
    if not path.exists():
        raise DataError(f"{path}: must be a file or folder, but there is none.")
    if form in ("images", "wav"):
        return _open_folders(open_tree(path), form, opening)
    if form in DELIMITERS:
        table = opening.table
        if not table.delimiter:
            table = replace(table, delimiter=DELIMITERS[form])
        return open_table(path, table, opening.targets)
    with reading(text, "must be arrays that can be read"):
        return open_arrays(path, opening.arrays, opening.targets)


def _open_folders(tree: Tree, form: str, opening: Opening) -> Source:
    if form == "images":
        return open_folders(
            tree, "image", partial(decode_picture, resize=opening.resize), opening.skip
        )
    source = open_folders(tree, "sound", opening.sound.decode, opening.skip)
    return replace(source, origin={**source.origin, "sound": opening.sound.describe()})


def _format(path: Path, opening: Opening) -> str:
    text = opening.text
    if opening.format != "auto":
        return opening.format
    if text.startswith(("tfds:", "hf:")):
        return "tfds" if text.startswith("tfds:") else "huggingface"
    if not path.exists() and re.fullmatch(r"[\w.]+:\w+", text):
        return "callable"
    if path.is_dir() or path.name.lower().endswith(ARCHIVES):
        names = [name.lower() for name in open_tree(path).sizes]
        sounds = sum(name.endswith(SOUNDS) for name in names)
        return "wav" if sounds > sum(name.endswith(PICTURES) for name in names) else "images"
    ending = Path(path.name.lower().removesuffix(".gz")).suffix
    if path.exists() and ending not in ENDINGS:
        raise DataError(
            f"{path}: its ending must tell what it is ({' '.join(ENDINGS)}), but is "
            f"{ending or 'missing'}. Give --format."
        )
    return ENDINGS.get(ending, "raw")
