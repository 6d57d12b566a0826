"""Opens a source of samples in a given or detected format."""

import importlib
import pkgutil
import re
from pathlib import Path

from odt.core.datasets import formats
from odt.core.datasets.folders import PICTURES, SOUNDS
from odt.core.datasets.source import Source
from odt.core.datasets.source_format import Opening, SourceFormat
from odt.core.datasets.tree import open_tree
from odt.core.model.file_kinds import stand_in
from odt.core.storage.reading import ABSENT
from odt.errors import DataError

ARCHIVES = (".zip", ".tar", ".tgz", ".tbz2", ".txz", ".tar.gz", ".tar.bz2", ".tar.xz")


def find_formats() -> dict[str, SourceFormat]:
    """Returns the formats of all modules in core/datasets/formats, by name and in list order."""
    modules = [m.name for m in pkgutil.iter_modules(formats.__path__)]
    loaded = [importlib.import_module(f"{formats.__name__}.{name}") for name in modules]
    rows: list[SourceFormat] = [row for module in loaded for row in module.FORMATS]
    return {row.name: row for row in sorted(rows, key=lambda row: (row.place, row.name))}


SOURCE_FORMATS = find_formats()
FORMATS = ("auto", *SOURCE_FORMATS)
SUFFIXES = {suffix: name for name, row in SOURCE_FORMATS.items() for suffix in row.suffixes}


def open_source(opening: Opening) -> Source:
    """Opens a source of any format.

    Raises:
        DataError: if the source does not exist, or is not valid in its format.
    """
    row = SOURCE_FORMATS[format_of(opening.path, opening)]
    if row.is_path and not opening.path.exists():
        raise DataError(f"{opening.path}: must be a file or folder, but got: {ABSENT}.")
    return row.open(opening)


def format_of(path: Path, opening: Opening) -> str:
    """The name of the format of a source: as the user says, or by its name.

    Raises:
        DataError: if the file stands for another, or its name tells no format.
    """
    text = opening.text
    if path.is_file() and (kind := stand_in(path)):
        raise DataError(f"{path}: must hold samples, but is {kind.name}. {kind.data}")
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
    if path.name.lower().endswith((*PICTURES, *SOUNDS)):
        return "images" if path.name.lower().endswith(PICTURES) else "wav"
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    if path.exists() and suffix not in SUFFIXES:
        raise DataError(
            f"{path}: must have a known extension ({' '.join(SUFFIXES)}), but has "
            f"{suffix or 'none'}. Give `format=`."
        )
    return SUFFIXES.get(suffix, "raw")
