"""Reads untrusted input files: opening, error messages, printable text, size limits.

A reader opens a file with `open_input`, reads it inside `reading`, limits the size of unpacked
data with `guard`, and shows text from the file with `printable` or `listed`.
"""

import math
import os
import re
import stat
import struct
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader
from itertools import islice
from typing import Any

from odt.core.storage.json_text import json_text
from odt.errors import DataError, OdtError, one_line

ABSENT = "no such file or directory"  # the system's message for a missing file
READABLE = "a readable file"
MAX_SHOWN = 80  # characters of one text
MAX_JSON = 60  # characters of a value of a JSON file
MAX_LISTED = 20  # texts of a list
MAX_LINE = 160  # characters of a list, or of the text of an exception
# A file that exceeds both is a decompression bomb: real data does not compress that well.
BOMB_BYTES = 1 << 30
BOMB_RATIO = 200

MAX_DIGITS = 18  # of a whole number
MAX_AXES = 64  # of a NumPy array
MAX_BYTES = 2**63 - 1  # of a NumPy array

ADDRESS = re.compile(r" ?<[^<>]* at 0x[0-9a-f]+>")  # of an object in memory
# Exceptions whose text is clear without the name of their class.
KNOWN = (OSError, ValueError, RuntimeError, struct.error)


def open_regular(path: str | os.PathLike[str]) -> BufferedReader:
    """Opens a regular file for reading, without blocking on a pipe or device.

    Raises:
        OSError: if the file cannot be opened or is not a regular file.
        ValueError: for a null byte in the path.
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            raise OSError("a folder" if stat.S_ISDIR(mode) else "a device or pipe")
        return open(handle, "rb")
    except OSError:
        os.close(handle)
        raise


def open_input(
    path: str | os.PathLike[str],
    what: str = READABLE,
    error: type[OdtError] = DataError,
) -> BufferedReader:
    """Opens a file that the user named.

    Args:
        path: the file.
        what: description of the required file, for the message.
        error: class of the exception to raise.

    Raises:
        OdtError: an exception of the given class, if the file cannot be opened or is not a regular
            file.
    """
    try:
        return open_regular(path)
    except FileNotFoundError as e:
        rule = "" if what == READABLE else f"must be {what}, but was "
        raise error(f"{os.fspath(path)}: {rule}not found.") from e
    except (OSError, ValueError) as e:
        raise error(f"{os.fspath(path)}: must be {what}, but got: {reason(e)}.") from e


def read_input(
    path: str | os.PathLike[str],
    what: str = READABLE,
    error: type[OdtError] = DataError,
    most: int | None = None,
) -> bytes:
    """Reads all bytes of a file that the user named; arguments and errors as for `open_input`.

    Args:
        path, what, error: as for `open_input`.
        most: maximum number of bytes; None for no limit.
    """
    with open_input(path, what, error) as file, reading(os.fspath(path), f"must be {what}", error):
        content = file.read(-1 if most is None else most + 1)
    if most is not None and len(content) > most:
        raise error(f"{os.fspath(path)}: must be {what} of at most {most} bytes, but has more.")
    return content


@contextmanager
def reading(where: str, rule: str, error: type[OdtError] = DataError) -> Iterator[None]:
    """Converts every exception inside a `with` block to an error about the file.

    Libraries raise more kinds of exceptions for damaged bytes than a list could hold.

    Args:
        where: the file's name in messages; empty if the caller adds it.
        rule: the rule that the file breaks, such as "must be a valid archive".
        error: class of the exception to raise.

    Raises:
        OdtError: unchanged, or an error of the given class for any other exception.
    """
    try:
        yield
    except OdtError:
        raise
    except Exception as e:
        place = f"{where}: " if where else ""
        raise error(f"{place}{rule}, but got: {reason(e)}.") from e


@contextmanager
def without_warnings() -> Iterator[None]:
    """Suppresses warnings of Python and NumPy about the text of a header.

    Must not be used for code that runs in several threads.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def unwritable(where: object, error: BaseException, kind: str = "file") -> str:
    """Returns the message for a file, or a folder, that cannot be written."""
    is_missing = isinstance(error, FileNotFoundError)
    return (
        f"{where}: must be a {kind} that can be written, but got: {reason(error)}. "
        f"{'Make its folder first.' if is_missing else 'Give another path.'}"
    )


def reason(error: BaseException) -> str:
    """Returns the text of an exception, on one line and without a full stop."""
    text = getattr(error, "strerror", None) or ADDRESS.sub("", str(error))
    text = printable(" ".join(text.split()).removesuffix("."), MAX_LINE)
    if isinstance(error, OSError) and error.strerror:
        return text.lower()
    if text and isinstance(error, KNOWN):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def printable(text: object, most: int = MAX_SHOWN) -> str:
    """Returns text from a file for messages and tables: escaped, on one line, shortened.

    Args:
        text: the text.
        most: maximum number of characters.
    """
    return one_line(str(text), most)


def shortened_json(value: object) -> str:
    """Returns a value of a JSON file for messages, with at most MAX_JSON characters."""
    text = json_text(value)
    return text if len(text) <= MAX_JSON else f"{text[: MAX_JSON - 3]}..."


def listed(texts: Collection[object], most: int = MAX_LINE) -> str:
    """Returns the first texts of a file's list, separated by commas, and the number of others.

    Args:
        texts: all texts.
        most: approximate maximum number of characters.
    """
    shown: list[str] = []
    for text in islice(texts, MAX_LISTED):
        shown.append(printable(text, MAX_SHOWN))
        if sum(map(len, shown)) > most:
            break
    rest = len(texts) - len(shown)
    return ", ".join(shown) + (f", … ({rest} more)" if rest else "")


def whole_number(text: str) -> int | None:
    """Returns the number that a text of digits is; None for other texts and over MAX_DIGITS."""
    return int(text) if text.isdecimal() and len(text) <= MAX_DIGITS else None


def check_shape(shape: Sequence[Any], itemsize: int) -> None:
    """Raises ValueError unless NumPy can make an array of this shape, given enough memory."""
    are_lengths = all(type(n) is int and n >= 0 for n in shape)
    if len(shape) > MAX_AXES or not are_lengths or _nbytes(shape, itemsize) > MAX_BYTES:
        raise ValueError(f"a shape of {len(shape)} axes: {listed(shape, 60)}")


def _nbytes(shape: Sequence[int], itemsize: int) -> int:
    """Returns the bytes as NumPy counts them: axes of length 0 are ignored."""
    return math.prod(n for n in shape if n) * itemsize


def guard(
    name: str,
    packed: int,
    unpacked: int,
    error: type[OdtError] = DataError,
    most: int | None = None,
) -> None:
    """Checks that the sizes are not those of a decompression bomb.

    Args:
        name: the file's name in messages; empty if the caller adds it.
        packed: bytes of the file.
        unpacked: bytes of the unpacked data.
        error: class of the exception to raise.
        most: bytes to which any file may unpack; None for BOMB_BYTES.

    Raises:
        OdtError: an exception of the given class, if they are.
    """
    most = BOMB_BYTES if most is None else most
    if unpacked > most and unpacked > BOMB_RATIO * packed:
        place = f"{name}: " if name else ""
        raise error(
            f"{place}must not unpack to more than {BOMB_RATIO} times its size, but {packed} bytes "
            f"become {unpacked} or more: a decompression bomb. Unpack it yourself if you trust it."
        )
