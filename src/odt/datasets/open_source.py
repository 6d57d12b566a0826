"""Opens a source of samples in a given or detected format."""

import importlib
import pkgutil
import re
from collections import Counter
from pathlib import Path

from odt.core.formats.file_kinds import ZIP, stand_in
from odt.core.storage.reading import open_input
from odt.datasets import formats
from odt.datasets.file_suffixes import kind_of, remedy_of, suffix_of, suffixes_of
from odt.datasets.source import Source
from odt.datasets.source_format import Opening, SourceFormat
from odt.datasets.table_folders import ENDINGS as TABLES
from odt.datasets.tree import open_tree
from odt.errors import DataError

ARCHIVES = (".zip", ".tar", ".tgz", ".tbz2", ".txz", ".tar.gz", ".tar.bz2", ".tar.xz")


def find_formats() -> dict[str, SourceFormat]:
    """Returns the formats of all modules in src/odt/datasets/formats, by name and in list order."""
    modules = [m.name for m in pkgutil.iter_modules(formats.__path__)]
    loaded = [importlib.import_module(f"{formats.__name__}.{name}") for name in modules]
    rows: list[SourceFormat] = [row for module in loaded for row in module.FORMATS]
    return {row.name: row for row in sorted(rows, key=lambda row: (row.place, row.name))}


SOURCE_FORMATS = find_formats()
FORMATS = ("auto", *SOURCE_FORMATS)
LANGUAGE = "language"  # format of sources with a tokenizer
SUFFIXES = {suffix: name for name, row in SOURCE_FORMATS.items() for suffix in row.suffixes}

SHEET = ("a spreadsheet", "Save it as CSV, for example as CSV UTF-8 in Excel.")
PANDAS = "Convert it to CSV: pandas.{} and to_csv(…, index=False)."
NUMPY = "Save its arrays with numpy.savez(…, x=…, y=…)."
# Suffix → what the file is, and what to do.
FOREIGN = {
    **dict.fromkeys((".xlsx", ".xlsm", ".xlsb", ".xls", ".ods", ".numbers"), SHEET),
    **dict.fromkeys((".jsonl", ".ndjson"), (
        "a file of JSON lines",
        f"Give `tokenizer=` for texts and chats. {PANDAS.format('read_json(…, lines=True)')}")),
    ".json": ("a JSON file", PANDAS.format("read_json(…)")),
    **dict.fromkeys((".feather", ".arrow"), ("an Arrow file", PANDAS.format("read_feather(…)"))),
    **dict.fromkeys((".sav", ".zsav"), ("an SPSS file", PANDAS.format("read_spss(…)"))),
    ".dta": ("a Stata file", PANDAS.format("read_stata(…)")),
    **dict.fromkeys((".db", ".sqlite", ".sqlite3"), (
        "an SQLite database", PANDAS.format("read_sql(…)"))),
    ".xml": ("an XML file", PANDAS.format("read_xml(…)")),
    ".mat": ("a MATLAB file", f"Read it with scipy.io.loadmat. {NUMPY}"),
    **dict.fromkeys((".pkl", ".pickle"), ("a pickle, which could run code", NUMPY)),
    **dict.fromkeys((".pt", ".pth"), ("a PyTorch file, which could run code", NUMPY)),
    **dict.fromkeys((".tfrecord", ".tfrecords"), (
        "a TFRecord file", "Give a function that yields its samples: `source=module:function`.")),
}  # fmt: skip


def open_source(opening: Opening, form: str = "") -> Source:
    """Opens a source of any format.

    Args:
        opening: how to open it.
        form: its format, as `format_of` returns it, which unpacks archives; empty to find it.

    Raises:
        DataError: if the source does not exist, or is not valid in its format.
    """
    row = SOURCE_FORMATS[form or format_of(opening.path, opening)]
    if row.is_path and not opening.path.exists():
        raise DataError(f"{opening.path}: not found.")
    return row.open(opening)


def format_of(path: Path, opening: Opening) -> str:
    """Returns the name of the format of a source: the user's, or that which its name tells.

    Raises:
        DataError: if the file stands for another, or its name tells no format.
    """
    text = opening.text
    if path.is_file() and (other := stand_in(path)):
        raise DataError(f"{path}: must hold samples, but is {other.instead_of_data(str(path))}")
    if opening.format != "auto" or opening.tokenizer is not None:
        return opening.format if opening.format != "auto" else LANGUAGE
    if text.startswith(("tfds:", "hf:")):
        return "tfds" if text.startswith("tfds:") else "huggingface"
    if not path.exists() and re.fullmatch(r"[\w.]+:\w+", text):
        return "callable"
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    if path.is_file() and suffix in FOREIGN and suffix not in SUFFIXES:
        name, remedy = FOREIGN[suffix]
        raise DataError(f"{path}: must be in a format that odt reads, but is {name}. {remedy}")
    is_archive = path.name.lower().endswith(ARCHIVES) or (suffix not in SUFFIXES and _is_zip(path))
    if path.is_dir() or is_archive:
        return _format_in(path)
    if (kind := kind_of(path.name)) != "features":
        if path.exists() and suffix_of(path.name) not in suffixes_of(kind):
            noun = "an image" if kind == "image" else "a sound"
            raise DataError(
                f"{path}: must be {noun} that odt reads, but is {suffix} ({remedy_of(suffix)})."
            )
        return "images" if kind == "image" else "wav"
    if path.exists() and suffix not in SUFFIXES:
        raise DataError(
            f"{path}: must have a known extension ({' '.join(SUFFIXES)}), but has "
            f"{suffix or 'none'}. Rename it, or give `format=` to odt gen-datafile."
        )
    return SUFFIXES.get(suffix, "raw")


def _format_in(path: Path) -> str:
    """Returns the format of a folder or archive, by the files in it."""
    names = open_tree(path).sizes
    kinds = Counter(map(kind_of, names))
    tables = sum(name.lower().endswith(TABLES) for name in names)
    suffixes = {*suffixes_of("image"), *suffixes_of("sound")}  # not .svg, which may be plots
    if tables > kinds["sound"] + kinds["image"] and not any(
        suffix_of(n) in suffixes for n in names
    ):
        return "tables"
    return "wav" if kinds["sound"] > kinds["image"] else "images"


def _is_zip(path: Path) -> bool:
    """Whether a file with any suffix, such as .tm of Teachable Machine, is a zip archive."""
    if not path.is_file():
        return False
    with open_input(path) as file:
        return file.read(len(ZIP)) == ZIP
