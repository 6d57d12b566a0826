"""Dropped files and typed rows, kept in a temporary folder while they are predicted."""

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from odt.core.model.record import Record
from odt.core.storage.reading import printable, reading
from odt.errors import DataError

ENDING = re.compile(r"(\.[A-Za-z0-9]{1,8}){0,2}$")  # such as .tar.gz
MAX_FIELDS = 200  # columns of a row that is typed
MAX_CELL = 1000  # characters of a cell


@contextmanager
def temporary_file(name: str, content: bytes) -> Iterator[Path]:
    """Writes a file to a temporary folder, which the end of a `with` block removes.

    Args:
        name: name of the file, which anyone may have chosen: only its ending is used.
        content: the file.
    """
    ending = ENDING.search(name)
    with TemporaryDirectory(prefix="odt-live-", ignore_cleanup_errors=True) as folder:
        path = Path(folder) / f"sample{ending[0] if ending else ''}"
        path.write_bytes(content)
        yield path


def with_name(text: str, path: Path, name: str) -> str:
    """Returns a message that names a file as the user does.

    Args:
        text: the message.
        path: temporary path of the file.
        name: name of the file for the user.
    """
    for place in (path, path.parent):
        text = text.replace(str(place), name)
    return text


def fields_of(record: Record | None) -> list[Mapping[str, Any]]:
    """Returns the columns of a row that can be typed; none for inputs of another kind.

    Args:
        record: the preprocessing record.
    """
    if record is None or record.kind != "features" or record.table.get("window"):
        return []
    inputs = {str(name) for name in record.table.get("inputs", [])}
    columns = [c for c in record.table.get("columns", []) if str(c.get("name")) in inputs]
    return columns if len(columns) <= MAX_FIELDS else []


def row_file(record: Record | None, content: bytes) -> bytes:
    """Returns a CSV file with a typed row.

    Args:
        record: the preprocessing record.
        content: JSON object, column → cell.

    Raises:
        DataError: if the row has another form.
    """
    columns = [str(column["name"]) for column in fields_of(record)]
    with reading("row", "must be a JSON object of texts"):
        cells = json.loads(content)
        if not isinstance(cells, dict) or not all(isinstance(v, str) for v in cells.values()):
            raise ValueError(printable(cells))
        if any(len(v) > MAX_CELL for v in cells.values()):
            raise ValueError(f"a cell of more than {MAX_CELL} characters")
    if not columns:
        raise DataError("row: the model must have the columns of a table, but has none.")
    lacking = [name for name in columns if name not in cells]
    if lacking:
        raise DataError(f"row: must have the column {printable(lacking[0])}, but has not.")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    assert record is not None, "its table has the columns"
    if record.table.get("header"):
        writer.writerow(columns)
    writer.writerow([cells[name] for name in columns])
    return text.getvalue().encode("utf-8", "backslashreplace")
