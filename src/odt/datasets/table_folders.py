"""Folders of tables: one table for each class, or for each recording.

All rows become one table with three more columns: the class, which the folder or the file names,
the file, which no window leaves, and the split if there are folders train and test.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from io import BytesIO, TextIOWrapper
from pathlib import Path, PurePosixPath

from odt.core.storage.reading import listed, printable, reading
from odt.datasets.class_folders import ALL, Place, place_files
from odt.datasets.file_suffixes import suffix_counts, suffix_of
from odt.datasets.folders import LIMIT, Naming, matches
from odt.datasets.source import Source
from odt.datasets.table_source import FILE, table_source
from odt.datasets.table_text import (
    SPELLED,
    Row,
    as_text,
    distinct_names,
    find_delimiter,
    find_header,
    rows_of,
    with_head,
)
from odt.datasets.tables import PART, TableOptions, parse_table
from odt.datasets.tree import Tree, open_tree
from odt.errors import DataError

ENDINGS = (".csv", ".tsv", ".tab", ".txt", ".data")
CLASS = "(class)"
USUAL_CLASSES = 30  # more files than this in one folder are hardly a class each
HEAD = 20  # lines of the first file from which the names of the columns are found


def open_folder(path: Path, options: TableOptions, naming: Naming) -> Source:
    """Opens all tables of a folder or archive as one source.

    Args:
        path: folder or archive.
        options: options for reading a table; the class is a column if `label` names one.
        naming: how the class of a file is found.

    Raises:
        DataError: if there are no tables, or they differ in their columns.
    """
    tree = open_tree(path)
    files, notes = _tables(tree)
    places = place_files(files, by_folder=True)
    classes = _classes(places, files, naming)
    rows = _Rows(tree, files, classes, [place.split for place in places], options)
    class_is_target = options.label == "-1"  # otherwise a column of the tables, or nothing
    leave_out = (*options.leave_out, FILE)
    if not class_is_target:
        leave_out = (*leave_out, CLASS)
    table_options = replace(
        options,
        label=CLASS if class_is_target else options.label,
        header=True,
        leave_out=leave_out,
        groups=options.groups if options.groups in rows.names else "",
        series=options.series if options.series in rows.names else "",
    )
    with reading(tree.name, "must hold tables of text"):
        table = parse_table(
            path, iter(rows), table_options, delimiter=rows.delimiter, where=rows.where
        )
    table.has_header = rows.has_header
    names = [table.names[k] for k in table.layout.labels]
    table.notes += notes
    source = table_source(path, table, table.targets, names, table_options)
    if options.like or not class_is_target or not source.classes or naming.pattern:
        return source
    by_file = classes == [PurePosixPath(name).stem for name in files]
    note = (
        f"note: {tree.name}: the classes are the names of the {'files' if by_file else 'folders'}: "
        f"{listed(source.classes)}."
    )
    if by_file and len(source.classes) > USUAL_CLASSES:
        note += " If several files are of one class, give `label_pattern=`."
    return replace(source, notes=(*source.notes, note))


def _tables(tree: Tree) -> tuple[list[str], list[str]]:
    """Returns the tables of a folder with its most frequent suffix, and notes about other files."""
    suffixes = Counter(map(suffix_of, tree.sizes))
    usual = max(ENDINGS, key=lambda suffix: suffixes[suffix])
    files = [name for name in tree.sizes if suffix_of(name) == usual]
    if not files:
        raise DataError(f"{tree.name}: must hold {' '.join(ENDINGS)} files, but has none.")
    others = [name for name in tree.sizes if suffix_of(name) != usual]
    if not others:
        return files, []
    left_out = suffix_counts(others, remedies=False)
    return files, [
        f"note: {tree.name}: reads {len(files)} {usual} files and leaves out others: {left_out}."
    ]


def _classes(places: Sequence[Place], files: Sequence[str], naming: Naming) -> list[str]:
    """Returns the class of each file: by a pattern, its folder, or its name in a single folder."""
    if naming.pattern:
        return matches(naming.pattern, files)
    folders = [place.label for place in places]
    if all(folders) and len({*folders}) > 1:
        return folders
    return [PurePosixPath(name).stem for name in files]


class _Rows:
    """The rows of all files, with the columns for class, file and split.

    Attributes:
        names: names of the columns of the tables.
        delimiter: delimiter of the first file.
        has_header: whether the tables have names.
    """

    def __init__(
        self,
        tree: Tree,
        files: Sequence[str],
        classes: Sequence[str],
        parts: Sequence[str],
        options: TableOptions,
    ) -> None:
        self._tree = tree
        self._files = files
        self._classes = classes
        self._options = options
        self._starts: list[int] = []
        lacking = [name for name, part in zip(files, parts, strict=True) if part == ALL]
        if lacking and len({*parts}) > 1:
            raise DataError(
                f"{tree.name}: all tables must be in folders of splits, but not {listed(lacking)}."
            )
        self._parts = [] if lacking else parts
        self.delimiter = SPELLED.get(options.delimiter, options.delimiter)
        self.delimiter = self.delimiter or find_delimiter(self._text(0), spaces=True)
        self.names, self.has_header = self._first()

    def __iter__(self) -> Iterator[Row]:
        part_column = [PART] if self._parts else []
        yield 0, [*self.names, CLASS, FILE, *part_column]
        first = 0
        for k, name in enumerate(self._files):
            self._starts.append(first)
            extra = [self._classes[k], name, *(self._parts[k : k + 1])]
            last = 0
            is_first = True
            for number, cells in rows_of(self._text(k), self.delimiter):
                last = number
                if is_first and self.has_header:
                    self._check_names(name, cells)
                elif len(cells) >= len(self.names):
                    yield first + number, [*cells[: len(self.names)], *extra, *self._rest(cells)]
                else:
                    yield first + number, [*cells, *extra]
                is_first = False
            first += last + 1  # lines of all files are numbered in one row; `where` undoes it

    def where(self, number: int) -> str:
        """Returns the file and line of a row."""
        k = bisect_right(self._starts, number) - 1
        return f"{printable(self._files[k])} line {number - self._starts[k]}"

    def _rest(self, cells: list[str]) -> list[str]:
        """Returns the cells beyond the columns, without empty ones."""
        return [cell for cell in cells[len(self.names) :] if cell.strip()]

    def _text(self, k: int) -> TextIOWrapper:
        return as_text(BytesIO(self._tree.read(self._files[k], LIMIT)))

    def _first(self) -> tuple[list[str], bool]:
        """Returns the names of the columns, and whether the first file has them in a line."""
        rows = rows_of(self._text(0), self.delimiter)
        first = next(rows, None)
        if first is None:
            raise DataError(f"{self._tree.where(self._files[0])}: must have lines, but is empty.")
        head, _ = with_head(rows, HEAD)
        _, cells = first
        like = self._options.like
        has_header = True if like and like["header"] else self._options.header
        names, _, is_header = find_header(cells, [row for _, row in head], has_header)
        return names, is_header

    def _check_names(self, name: str, cells: list[str]) -> None:
        names = distinct_names(cells)[: len(self.names)]
        if names != self.names:
            first = self._tree.where(self._files[0])
            raise DataError(
                f"{self._tree.where(name)}: must have the columns of {first}, "
                f"{listed(self.names)}, but has {listed(names)}."
            )
