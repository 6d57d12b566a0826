"""Input files: how they are opened, how their errors are told, how their text is shown.

Whoever wrote a file may wish odt harm. A reader opens it with open_input, reads it inside
`reading`, bounds what it unpacks to with guard, and shows text out of it with printable or listed.
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

from odt.errors import DataError, OdtError, one_line

MOST_SHOWN = 80  # characters of one text
MOST_LISTED = 20  # texts of a list
# Beyond both, a file is made to fill memory and disks: real data does not shrink so far.
BOMB_BYTES = 1 << 30
BOMB_RATIO = 200

MOST_AXES = 64  # of a NumPy array
MOST_BYTES = 2**63 - 1  # likewise

ADDRESS = re.compile(r" ?<[^<>]* at 0x[0-9a-f]+>")  # of an object in memory
KNOWN = (
    OSError,
    ValueError,
    RuntimeError,
    struct.error,
)  # whose text says enough without their name


def open_regular(path: str | os.PathLike[str]) -> BufferedReader:
    """A regular file to read; a pipe or a device, which may never answer, is not waited for.

    Raises:
        OSError: if there is none.
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
    what: str = "a readable file",
    error: type[OdtError] = DataError,
) -> BufferedReader:
    """A file that the user names, to read.

    Args:
        path: the file.
        what: it must be.
        error: what to raise.

    Raises:
        OdtError: of the given class, if it cannot be opened or is no regular file.
    """
    try:
        return open_regular(path)
    except (OSError, ValueError) as e:
        raise error(f"{os.fspath(path)}: must be {what}, but got: {reason(e)}.") from e


def read_input(
    path: str | os.PathLike[str],
    what: str = "a readable file",
    error: type[OdtError] = DataError,
) -> bytes:
    """All bytes of a file that the user names; raises as open_input."""
    with open_input(path, what, error) as file, reading(os.fspath(path), f"must be {what}", error):
        return file.read()


@contextmanager
def reading(where: str, rule: str, error: type[OdtError] = DataError) -> Iterator[None]:
    """Whatever goes wrong inside is the file's fault: the one door of a reader.

    Libraries raise more kinds of errors for damaged bytes than any list of them has.

    Args:
        where: how messages name the file; nothing if the caller will.
        rule: that it breaks, such as "must be a sound archive".
        error: what to raise.

    Raises:
        OdtError: as it is, or of the given class for any other exception.
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
    """Nothing is printed of what Python and NumPy think of the text in a header.

    Not for code that runs in several threads.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def reason(error: BaseException) -> str:
    """What an exception says, on one line and without its full stop."""
    text = getattr(error, "strerror", None) or ADDRESS.sub("", str(error))
    text = printable(" ".join(text.split()).removesuffix("."), 160)
    if isinstance(error, OSError) and error.strerror:
        return text.lower()
    if text and isinstance(error, KNOWN):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def printable(text: object, most: int = MOST_SHOWN) -> str:
    """Text out of a file as messages and tables show it: escaped, on one line, shortened.

    Args:
        text: what is shown.
        most: characters.
    """
    return one_line(str(text), most)


def listed(texts: Collection[object], most: int = 160) -> str:
    """Some texts out of a file with commas between, and how many more there are.

    Args:
        texts: what is shown.
        most: characters, about.
    """
    shown: list[str] = []
    for text in islice(texts, MOST_LISTED):
        shown.append(printable(text, MOST_SHOWN))
        if sum(map(len, shown)) > most:
            break
    more = len(texts) - len(shown)
    return ", ".join(shown) + (f", … ({more} more)" if more else "")


def check_shape(shape: Sequence[Any], itemsize: int) -> None:
    """Raises ValueError unless an array of this shape can be, wherever its memory comes from."""
    whole = all(type(n) is int and n >= 0 for n in shape)
    if len(shape) > MOST_AXES or not whole or _nbytes(shape, itemsize) > MOST_BYTES:
        raise ValueError(f"a shape of {len(shape)} axes: {listed(shape, 60)}")


def _nbytes(shape: Sequence[int], itemsize: int) -> int:
    """NumPy multiplies the other axes even where one is 0."""
    return math.prod(n for n in shape if n) * itemsize


def guard(
    name: str,
    packed: int,
    unpacked: int,
    error: type[OdtError] = DataError,
    most: int | None = None,
) -> None:
    """Raises an OdtError for sizes that only a decompression bomb has.

    Args:
        name: how messages name the file; nothing if the caller will.
        packed: bytes of the file.
        unpacked: bytes it becomes.
        error: what to raise.
        most: bytes that any file may become; None for BOMB_BYTES.
    """
    most = BOMB_BYTES if most is None else most
    if unpacked > most and unpacked > BOMB_RATIO * packed:
        place = f"{name}: " if name else ""
        raise error(
            f"{place}must not unpack to more than {BOMB_RATIO} times its size, but {packed} bytes "
            f"become {unpacked} or more: a decompression bomb. Unpack it yourself if you trust it."
        )
