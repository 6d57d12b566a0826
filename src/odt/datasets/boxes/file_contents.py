"""Reads the files of annotations, which are untrusted: XML, JSON, tables and lines of text."""

import io
from collections.abc import Callable
from typing import Any
from xml.etree.ElementTree import TreeBuilder
from xml.parsers.expat import ParserCreate

from odt.core.storage.json_text import parse_json
from odt.core.storage.reading import reading
from odt.datasets.file_suffixes import suffix_of
from odt.datasets.table_text import as_text, find_delimiter, rows_of

MAX_TEXT = 1 << 24  # bytes of an XML or text file
MAX_TABLE = 1 << 29  # bytes of a JSON file or table


def parse_xml(data: bytes) -> Any:
    """Returns the root of an XML document, an Element of xml.etree.

    Raises:
        ValueError: for a document type, which could declare entities.
        xml.parsers.expat.ExpatError: if it is not XML.
    """

    def refuse(*args: object) -> None:
        raise ValueError("a document type (DTD). Remove <!DOCTYPE …>")

    builder = TreeBuilder()
    parser = ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    parser.Parse(data, True)
    return builder.close()


def _rows(data: bytes) -> list[tuple[int, list[str]]]:
    """Returns the lines of a table with their numbers."""
    text = as_text(io.BytesIO(data))
    return [*rows_of(text, find_delimiter(text))]


def _lines(data: bytes) -> list[str]:
    return as_text(io.BytesIO(data)).read().splitlines()


# Suffix → largest size, what the file must be, and the function that reads it.
READERS: dict[str, tuple[int, str, Callable[[bytes], Any]]] = {
    ".xml": (MAX_TEXT, "XML without a document type", parse_xml),
    **dict.fromkeys((".json", ".labels"), (MAX_TABLE, "JSON", parse_json)),
    ".csv": (MAX_TABLE, "a table", _rows),
    **dict.fromkeys((".txt", ".names", ".yaml", ".yml"), (MAX_TEXT, "text", _lines)),
}


def content_of(where: str, data: bytes) -> Any:
    """Returns the content of a file whose suffix is one of READERS.

    Args:
        where: the file in messages.
        data: its bytes.

    Raises:
        DataError: if the file is damaged, or has a document type.
    """
    _, kind, read = READERS[suffix_of(where)]
    with reading(where, f"must be {kind}"):
        return read(data)
