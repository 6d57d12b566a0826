"""Writes files atomically: a file appears complete or not at all."""

import contextlib
import os
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self

from odt.core.storage.reading import open_regular, unwritable
from odt.errors import ModelError, OdtError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]  # a module or nothing

UNFINISHED = ".odt-"  # prefix of the names of temporary files


class AtomicFile:
    """A file that appears under its name when it is complete.

    Bytes go to a temporary file in the same folder, which is flushed to disk and then renamed; a
    process that has the old file open or mapped keeps the old bytes. A symbolic link stays a link.
    At the end of a `with` block the file is committed; an exception discards it.

    Args:
        path: name of the file; until commit, may be changed to another name in the same folder.
        error: class of the exceptions to raise.

    Raises:
        OdtError: an exception of the given class, if the file cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str], error: type[OdtError] = ModelError) -> None:
        import tempfile

        self.path = path
        self.error = error
        self.temporary: str | None = None
        target = self._target()
        try:
            if os.path.exists(target) and not os.path.isfile(target):
                raise OSError("the path exists and is not a file")
            if not os.path.basename(path):
                raise OSError("the path is that of a folder")
            handle, name = tempfile.mkstemp(prefix=UNFINISHED, dir=os.path.dirname(target))
        except OSError as e:
            raise self._refuse(e) from e
        self.temporary = name
        lock(handle)
        self._file = open(handle, "wb")  # noqa: SIM115  # closed by commit or discard

    def write(self, chunk: Any) -> None:
        """Appends a bytes-like object."""
        try:
            self._file.write(chunk)
        except OSError as e:
            raise self._refuse(e) from e

    def flush(self) -> str:
        """Flushes the buffer; returns the path of the temporary file, which can then be read."""
        assert self.temporary is not None
        try:
            self._file.flush()
        except OSError as e:
            raise self._refuse(e) from e
        return self.temporary

    def begin_sync(self) -> None:
        """Makes the system start writing to disk, so that commit waits less.

        Linux starts to write changed pages before it drops pages that are not needed.
        """
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def commit(self) -> None:
        """Flushes the file to disk and gives it its name."""
        assert self.temporary is not None
        target = self._target()
        try:
            self._file.flush()
            if hasattr(os, "fchmod"):  # Windows has it from Python 3.13 on
                os.fchmod(self._file.fileno(), _mode(target))
            os.fsync(self._file.fileno())
            self._file.close()
            os.replace(self.temporary, target)
        except OSError as e:
            raise self._refuse(e) from e
        self.temporary = None
        sync_folder(os.path.dirname(target))

    def discard(self) -> None:
        """Removes the temporary file; does nothing after commit."""
        with contextlib.suppress(OSError):  # on a full disk, flushing the buffer fails again
            self._file.close()
        if self.temporary is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.temporary)
            self.temporary = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self.commit()
        finally:
            self.discard()

    def _target(self) -> str:
        try:
            return os.path.realpath(self.path)
        except (OSError, ValueError) as e:  # the current folder was removed; a null byte
            raise self._refuse(e) from e

    def _refuse(self, e: OSError | ValueError) -> OdtError:
        return self.error(unwritable(self.path, e))


def write_atomically(
    path: str | os.PathLike[str],
    chunks: Iterable[Any],
    error: type[OdtError] = ModelError,
    check: Callable[[str], None] | None = None,
) -> None:
    """Writes a file atomically; on failure, an existing file is unchanged.

    Args:
        path: name of the file.
        chunks: bytes-like objects, in order.
        error: class of the exceptions to raise.
        check: called with the temporary file before it is renamed; an exception discards it.

    Raises:
        OdtError: an exception of the given class, if the file cannot be written.
    """
    with AtomicFile(path, error) as file:
        for chunk in chunks:
            file.write(chunk)
        if check:
            check(file.flush())


def remove_leftovers(folder: str | os.PathLike[str]) -> None:
    """Removes temporary files of killed processes, but not those of running ones."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            leftover = os.path.join(folder, name)
            if name.startswith(UNFINISHED):
                with contextlib.suppress(OSError), open_regular(leftover) as file:
                    if lock(file.fileno()):
                        os.unlink(leftover)


def lock(handle: int) -> bool:
    """Tries to lock a file until it is closed; returns whether it is locked."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _mode(target: str) -> int:
    """Returns the permissions of the old file or of a new one; mkstemp sets the owner's only."""
    if os.path.exists(target):
        return os.stat(target).st_mode & 0o777
    return new_mode(0o666)


def new_mode(mode: int) -> int:
    """Returns the permissions of a new file or folder: those that the umask leaves of `mode`."""
    mask = os.umask(0)  # there is no other way to read it
    os.umask(mask)
    return mode & ~mask


def sync_folder(folder: str) -> None:
    """Makes a rename durable across power failures, if the system can."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)
