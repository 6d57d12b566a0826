"""Files under a folder or inside a zip or tar archive, read without ever being unpacked in place.

Nothing of an archive is written under the name it asks for, links in it are never followed, and
what it unpacks to is bounded.
"""

import bz2
import gzip
import io
import lzma
import os
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from odt.errors import DataError

COPY = 1 << 20
# Beyond both, an archive is made to fill memory and disks: real data does not shrink so far.
BOMB_BYTES = 1 << 30
BOMB_RATIO = 200

PACKED: dict[bytes, Callable[..., Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
}
UNPACK_ERRORS = (
    OSError,
    EOFError,
    RuntimeError,
    ValueError,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
)


class Tree:
    """Files by name.

    Attributes:
        name: of the folder or archive.
        sizes: bytes by file name, relative, with /, sorted.
        empty: folders in which there is nothing.
    """

    name: str
    sizes: Mapping[str, int]
    empty: Collection[str] = ()

    def open(self, name: str) -> IO[bytes]:
        """A file to read; may be called from several threads at once."""
        raise NotImplementedError

    def read(self, name: str, limit: int) -> bytes:
        """All bytes of a file.

        Raises:
            DataError: if it is damaged or has more than limit.
        """
        if self.sizes[name] > limit:
            raise DataError(
                f"{self.where(name)}: must have at most {limit} bytes, but has {self.sizes[name]}."
            )
        try:
            with self.open(name) as f:
                return f.read(limit)
        except UNPACK_ERRORS as e:
            raise DataError(f"{self.where(name)}: cannot be read: {one_line(e)}.") from e

    def where(self, name: str) -> str:
        """How messages name a file."""
        return f"{self.name}/{name}"


class FolderTree(Tree):
    """A folder and those below it; names that begin with a dot are left out."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        found, self.empty = {}, []
        for folder, below, files in os.walk(self.name):
            below[:] = [b for b in below if not b.startswith(".")]
            inside = Path(folder).relative_to(path).as_posix()
            start = "" if inside == "." else f"{inside}/"
            if start and not below and not files:
                self.empty.append(inside)
            for file in files:
                full = f"{folder}/{file}"
                if not file.startswith(".") and os.path.isfile(full):
                    found[start + file] = os.path.getsize(full)
        self.sizes = dict(sorted(found.items()))

    def open(self, name: str) -> IO[bytes]:
        return open(f"{self.name}/{name}", "rb")


class ZipTree(Tree):
    def __init__(self, path: Path) -> None:
        self.name = str(path)
        try:
            self._archive = zipfile.ZipFile(path)
        except UNPACK_ERRORS as e:
            raise DataError(f"{path}: must be a sound zip archive, but got: {one_line(e)}.") from e
        found = {}
        for member in self._archive.infolist():
            kind = stat.S_IFMT(member.external_attr >> 16)
            if member.is_dir() or kind == stat.S_IFLNK or _hidden(self.name, member.filename):
                continue
            guard(self.where(member.filename), member.compress_size, member.file_size)
            found[member.filename] = member.file_size
        self.sizes = dict(sorted(found.items()))
        folders = [m.filename for m in self._archive.infolist() if m.is_dir()]
        self.empty = [f for f in folders if not any(n.startswith(f) for n in found)]

    def open(self, name: str) -> IO[bytes]:
        return self._archive.open(name)


class TarTree(Tree):
    """A tar; a compressed one is unpacked once, to a file without a name."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._members: dict[str, tuple[int, int]] = {}
        try:
            self._file = unpacked(path)
            with tarfile.open(fileobj=self._file, mode="r:") as archive:
                for member in archive:
                    if member.isreg() and not _hidden(self.name, member.name):
                        name = member.name.removeprefix("./")
                        self._members[name] = (member.offset_data, member.size)
        except (tarfile.TarError, *UNPACK_ERRORS) as e:
            raise DataError(f"{path}: must be a sound tar archive, but got: {one_line(e)}.") from e
        self.sizes = {name: size for name, (_, size) in sorted(self._members.items())}

    def open(self, name: str) -> IO[bytes]:
        offset, size = self._members[name]
        data = os.pread(self._file.fileno(), size, offset)
        if len(data) < size:
            raise EOFError(f"{size} bytes expected, {len(data)} there")
        return io.BytesIO(data)


def open_tree(path: Path) -> Tree:
    """A folder or an archive, told by its bytes.

    Raises:
        DataError: if it is neither, is damaged or not safe to read.
    """
    if path.is_dir():
        return FolderTree(path)
    try:
        with open(path, "rb") as file:
            zipped = file.read(4) == b"PK\x03\x04"  # is_zipfile looks at the end, which may be cut
        return ZipTree(path) if zipped or zipfile.is_zipfile(path) else TarTree(path)
    except OSError as e:
        raise DataError(f"{path}: must be a folder, zip or tar, but got: {one_line(e)}.") from e


def unpacked(path: Path) -> IO[bytes]:
    """A file, without its gzip, bzip2 or xz compression if it has one.

    Raises:
        DataError: if it unpacks to far more than real data would.
    """
    file = open(path, "rb")  # noqa: SIM115  # the caller's
    start = file.read(6)
    file.seek(0)
    opener = next((o for magic, o in PACKED.items() if start.startswith(magic)), None)
    if opener is None:
        return file
    result = cast(IO[bytes], tempfile.TemporaryFile())  # noqa: SIM115  # the caller's
    packed = path.stat().st_size
    with file, opener(file) as stream:
        while chunk := stream.read(COPY):
            guard(str(path), packed, result.tell() + len(chunk))
            result.write(chunk)
    result.flush()
    result.seek(0)
    return result


def guard(name: str, packed: int, unpacked: int) -> None:
    """Raises DataError for sizes that only a decompression bomb has."""
    if unpacked > BOMB_BYTES and unpacked > BOMB_RATIO * packed:
        raise DataError(
            f"{name}: must not unpack to more than {BOMB_RATIO} times its size, but {packed} bytes "
            f"become {unpacked} or more: a decompression bomb. Unpack it yourself if you trust it."
        )


def _hidden(archive: str, name: str) -> bool:
    """Whether a member is of no interest; raises DataError if it wants to leave its folder."""
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or ":" in path.parts[0]:
        raise DataError(
            f"{archive}: names must stay inside the archive, but got {name!r}. It is not read."
        )
    return any(part.startswith((".", "__MACOSX")) for part in path.parts)


def one_line(error: BaseException) -> str:
    """An error's text on one line, without its full stop."""
    return " ".join(str(error).split()).removesuffix(".") or type(error).__name__
