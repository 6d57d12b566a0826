"""SourceFormat, the row that declares a format of sources, and the options for opening a source."""

from collections.abc import Callable
from dataclasses import field
from pathlib import Path

from odt.dataclass import dataclass
from odt.datasets.arrays import ArrayOptions
from odt.datasets.folders import BY_FOLDER, Naming
from odt.datasets.pictures import Resize
from odt.datasets.sounds import Sound
from odt.datasets.source import Source
from odt.datasets.tables import TableOptions


@dataclass(frozen=True, slots=True)
class Opening:
    """Options for opening a source.

    Attributes:
        text: path, module:function, tfds:NAME or hf:NAME.
        format: name of its format; auto to find it.
        targets: path of a second file with the targets.
        data_dir: folder of data for TensorFlow Datasets and Hugging Face.
        table, arrays, sound: how tables, files of arrays and sounds are read.
        skip: whether to leave out files and lines that cannot be used.
        resize: resizing of images, if no other step precedes it.
        naming: how the classes of files are found.
        masks: folder or archive of masks, one for each picture.
        mask_resize: size of pictures and masks.
        boxes: file, folder or archive of annotations with boxes.
        tokenizer: path of the language model for whose tokens texts are read.
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
    naming: Naming = BY_FOLDER
    masks: Path | None = None
    mask_resize: Resize | None = None
    boxes: Path | None = None
    tokenizer: str | None = None

    @property
    def path(self) -> Path:
        """The path of the file or folder."""
        return Path(self.text)


@dataclass(frozen=True, slots=True)
class SourceFormat:
    """A format of sources.

    Attributes:
        name: name of the format.
        open: opens a source of this format; raises DataError if it is not valid.
        suffixes: file name suffixes that select the format, in lower case, such as ".csv".
        contents: contents of the source, for the documentation.
        is_path: whether the source is a file or folder, which must exist.
        place: position in lists; formats with the same position are sorted by name.
    """

    name: str
    open: Callable[[Opening], Source]
    suffixes: tuple[str, ...] = ()
    contents: str = ""
    is_path: bool = True
    place: int = 100
