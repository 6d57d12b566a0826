"""Detects files that are not samples by their first bytes: tables, images, sounds, models.

A raw file has no header, so any file could be mistaken for one. The bytes of 32-bit floats and
integers begin like one of these formats by a chance of 1 in 10 million, and are not text.
"""

from odt.dataclass import dataclass

TEXT_BYTES = 256  # that are read as text
LEAST_TEXT = 8  # characters; fewer are no table


@dataclass(frozen=True, slots=True)
class FileKind:
    """A kind of file that cannot be read as samples.

    Attributes:
        name: name with an article, for messages.
        remedy: what to do instead; {path} stands for the file.
    """

    name: str
    remedy: str


_CONVERT = "Convert it to data files: odt gen-datafile `source={path}`."
_FOLDER = (
    "Put such files into one folder per class, and convert them: odt gen-datafile `source=FOLDER`."
)
_OTHER = "Give raw values, .npy, .npz or HDF5."
TABLE = FileKind("a text file", _CONVERT)
_PICTURE, _SOUND = FileKind("an image", _FOLDER), FileKind("a sound", _FOLDER)
_ARCHIVE = FileKind("an archive", _CONVERT)
_MODEL = FileKind("a model", "See its tensors with: odt inspect {path}.")
_SIGNATURES = (  # offset, bytes, kind
    (0, b"\xff\xd8\xff", _PICTURE),
    (0, b"\x89PNG\r\n\x1a\n", _PICTURE),
    (0, b"GIF8", _PICTURE),
    (8, b"WEBP", _PICTURE),
    (0, b"II*\0", _PICTURE),
    (0, b"MM\0*", _PICTURE),
    (8, b"WAVEfmt", _SOUND),
    (0, b"fLaC", _SOUND),
    (0, b"OggS", _SOUND),
    (0, b"ID3", _SOUND),
    (0, b"\x1f\x8b\x08", _ARCHIVE),
    (257, b"ustar", _ARCHIVE),
    (0, b"BZh", _ARCHIVE),
    (0, b"\xfd7zXZ\0", _ARCHIVE),
    (0, b"7z\xbc\xaf\x27\x1c", FileKind("a 7-Zip archive", "Unpack it first.")),
    (4, b"TFL3", _MODEL),
    (4, b"CIR0", _MODEL),
    (0, b"odt ckpt", FileKind("a checkpoint", _OTHER)),
    (0, b"%PDF-", FileKind("a PDF document", _OTHER)),
    (0, b"PAR1", FileKind("a Parquet file", "Export it as CSV, and convert that to data files.")),
    (0, b"PK\x03\x04", _ARCHIVE),
)
START = max(TEXT_BYTES, *(offset + len(magic) for offset, magic, _ in _SIGNATURES))


def file_kind(start: bytes, itemsize: int) -> FileKind | None:
    """Returns the kind of a file that holds no samples; None if it may hold raw values.

    Args:
        start: the first START bytes of the file, or all of a shorter file.
        itemsize: bytes of a raw value. Single bytes, such as gray pixels, can look like text.
    """
    for offset, magic, kind in _SIGNATURES:
        if start.startswith(magic, offset):
            return kind
    return TABLE if itemsize > 1 and _is_text(start[:TEXT_BYTES]) else None


def _is_text(start: bytes) -> bool:
    """Whether bytes are printable text; the last character may be incomplete."""
    for cut in range(4):
        try:
            text = start[: len(start) - cut].decode("utf-8-sig")
        except UnicodeDecodeError:
            continue
        return len(text) >= LEAST_TEXT and all(c.isprintable() or c in "\t\r\n" for c in text)
    return False
