"""Reads files in a folder, or in a zip or tar archive without unpacking it.

In a folder, symbolic links are followed. No file of an archive is written under its own name, its
symbolic links are counted and not followed, and the unpacked size is limited.
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
from collections.abc import Callable, Collection, Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from odt.core.formats.file_kinds import ZIP
from odt.core.storage.reading import guard, open_input, printable, reading
from odt.errors import DataError

COPY = 1 << 20  # bytes that are copied at once
MAX_LINKS = 10_000  # links to folders that are followed
JUNK = ("__macosx", "@eadir", "thumbs.db", "desktop.ini")  # files that systems add on their own
# First bytes of a compressed file → function that opens it.
PACKED: dict[bytes, Callable[..., Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
}


class Tree:
    """Files by name.

    Attributes:
        name: name of the folder or archive.
        sizes: relative file name with slashes → bytes, sorted.
        empty: folders without files.
        links: number of symbolic links that are not followed.
    """

    name: str
    sizes: Mapping[str, int]
    empty: Collection[str] = ()
    links: int = 0

    def open(self, name: str) -> IO[bytes]:
        """Opens a file for reading. Several threads may do so concurrently."""
        raise NotImplementedError

    def read(self, name: str, limit: int) -> bytes:
        """Reads all bytes of a file.

        Raises:
            DataError: if the file is damaged or longer than `limit`.
        """
        if self.sizes[name] > limit:
            raise DataError(
                f"{self.where(name)}: must have at most {limit} bytes, but has {self.sizes[name]}."
            )
        with reading(self.where(name), "must be readable"), self.open(name) as f:
            return f.read(limit)

    def where(self, name: str) -> str:
        """Returns the name of a file in messages."""
        return f"{self.name}/{printable(name)}"


class FolderTree(Tree):
    """A folder with its subfolders, without names that begin with a dot.

    Pipes, devices and broken links have the size 0; opening one is an error.
    """

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self.empty = []
        sizes: dict[str, int] = {}
        followed = 0
        waiting = [("", frozenset([_identity(os.stat(path))]))]
        while waiting:
            inside, above = waiting.pop()
            place = self.where(inside) if inside else self.name
            with reading(place, "must be a readable folder"):
                entries = [e for e in os.scandir(path / inside) if not is_hidden(e.name)]
            if inside and not entries:
                self.empty.append(inside)
            for entry in entries:
                name = f"{inside}/{entry.name}" if inside else entry.name
                if not os.path.isdir(entry.path):
                    sizes[name] = os.path.getsize(entry.path) if os.path.isfile(entry.path) else 0
                    continue
                identity = _identity(os.stat(entry.path))
                followed += entry.is_symlink()
                if followed > MAX_LINKS:
                    raise DataError(
                        f"{self.name}: must lead to at most {MAX_LINKS} folders by links, but has "
                        "more."
                    )
                if identity in above:  # a link to a folder that holds it
                    self.links += 1
                else:
                    waiting.append((name, above | {identity}))
        self.sizes = dict(sorted(sizes.items()))
        self.empty.sort()

    def open(self, name: str) -> IO[bytes]:
        return open_input(f"{self.name}/{name}")


class FileTree(Tree):
    """A single file, without the others in its folder."""

    def __init__(self, path: Path) -> None:
        self.name = str(path.parent)
        with open_input(path) as file:
            self.sizes = {path.name: os.fstat(file.fileno()).st_size}

    def open(self, name: str) -> IO[bytes]:
        return open_input(f"{self.name}/{name}")


class ZipTree(Tree):
    """A zip archive."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        sizes: dict[str, int] = {}
        folders: list[str] = []
        filled: set[str] = set()
        with reading(self.name, "must be a valid zip archive"):
            self._archive = zipfile.ZipFile(open_input(path))
            for member in self._archive.infolist():
                name = member.filename
                if _is_hidden_member(self.name, name):
                    continue
                if member.is_dir():
                    folders.append(name)
                    continue
                if _is_link(member):
                    self.links += 1
                    continue
                guard(self.where(name), member.compress_size, member.file_size)
                sizes[name] = member.file_size
                filled.update(f"{above}/" for above in PurePosixPath(name).parents)
        self.sizes = dict(sorted(sizes.items()))
        self.empty = [f for f in folders if f not in filled]

    def open(self, name: str) -> IO[bytes]:
        return self._archive.open(name)


def _is_link(member: zipfile.ZipInfo) -> bool:
    return stat.S_IFMT(member.external_attr >> 16) == stat.S_IFLNK


class _Sized:
    """A file whose reads are limited to its size, so that a false size in a header is harmless."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._size = os.fstat(file.fileno()).st_size
        self.seek = file.seek
        self.tell = file.tell

    def read(self, n: int = -1) -> bytes:
        remaining = max(0, self._size - self.tell())
        return self._file.read(remaining if n < 0 else min(n, remaining))


class TarTree(Tree):
    """A tar archive; a compressed one is unpacked once, to an unnamed temporary file."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._members: dict[str, tuple[int, int]] = {}
        self._folders: list[str] = []
        with reading(self.name, "must be a valid tar archive"):
            self._file = unpacked(path)
            with tarfile.open(fileobj=cast(IO[bytes], _Sized(self._file)), mode="r:") as archive:
                self._read(archive)
        self.sizes = {name: size for name, (_, size) in sorted(self._members.items())}
        filled = {str(above) for name in self.sizes for above in PurePosixPath(name).parents}
        self.empty = [folder for folder in self._folders if folder not in filled]

    def _read(self, archive: tarfile.TarFile) -> None:
        """Reads positions and sizes of the files, and the names of folders."""
        end = -1
        for member in archive:
            if member.offset <= end or member.size < 0:  # otherwise the loop might never end
                raise ValueError(f"a member that begins at {member.offset} bytes")
            if member.issparse():
                raise ValueError(f"a sparse member, {printable(member.name)}")
            end = member.offset
            if _is_hidden_member(self.name, member.name):
                continue
            name = member.name.removeprefix("./")
            if member.isreg():
                self._members[name] = (member.offset_data, member.size)
            elif member.isdir():
                self._folders.append(str(PurePosixPath(name)))
            elif member.islnk() and (same := member.linkname.removeprefix("./")) in self._members:
                self._members[name] = self._members[same]  # a second name of the same file
            else:
                self.links += 1

    def open(self, name: str) -> IO[bytes]:
        offset, size = self._members[name]
        data = os.pread(self._file.fileno(), size, offset)
        if len(data) < size:
            raise EOFError(f"{len(data)} of {size} bytes")
        return io.BytesIO(data)


def open_tree(path: Path) -> Tree:
    """Opens a folder or an archive, detected by its bytes.

    Raises:
        DataError: if the path is neither, or the archive is damaged or unsafe.
    """
    if path.is_dir():
        return FolderTree(path)
    with open_input(path, "a folder, zip or tar") as file:
        zipped = file.read(len(ZIP)) == ZIP  # is_zipfile looks at the end, which may be missing
        is_zip = zipped or zipfile.is_zipfile(file)
    return ZipTree(path) if is_zip else TarTree(path)


def unpacked(path: Path) -> IO[bytes]:
    """Opens a file; decompresses it if it is compressed with gzip, bzip2 or xz.

    Raises:
        DataError: if the file is a decompression bomb.
    """
    file = open_input(path)
    start = file.read(max(map(len, PACKED)))
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


def _is_hidden_member(archive: str, name: str) -> bool:
    """Whether a member is hidden; raises DataError if its path leaves the archive."""
    path = PurePosixPath(name.replace("\\", "/"))
    if not path.parts:
        return True
    if path.is_absolute() or ".." in path.parts or ":" in path.parts[0]:
        raise DataError(
            f"{archive}: names must stay inside the archive, but got {printable(name)}. The "
            "archive is not read."
        )
    return any(map(is_hidden, path.parts))


def is_hidden(name: str) -> bool:
    """Whether a file or folder of this name is not the user's: hidden, or added by a system."""
    return name.startswith(".") or name.lower() in JUNK


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
