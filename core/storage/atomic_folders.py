"""Writes folders as a whole: all files of a folder appear together or not at all."""

import contextlib
import os
from types import TracebackType
from typing import Self

from odt.core.storage.atomic_files import UNFINISHED, lock, new_mode, sync_folder
from odt.core.storage.reading import unwritable
from odt.errors import ModelError


class AtomicFolder:
    """A folder that appears under its name when all its files are complete.

    Files are written to a temporary folder beside it. At the end of a `with` block they are flushed
    to disk and the folder is renamed; an exception discards it. A folder of the same name is
    replaced: a process that is killed in between leaves the old folder, or none.

    Args:
        path: name of the folder.

    Attributes:
        temporary: path of the temporary folder.

    Raises:
        ModelError: if the folder cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        import tempfile

        self.path = os.fspath(path)
        try:
            if not self.path:  # realpath returns the current folder
                raise OSError("an empty path")
            self.path = os.path.realpath(path)
            parent = os.path.dirname(self.path)
            remove_leftover_folders(parent)
            self.temporary = tempfile.mkdtemp(prefix=UNFINISHED, dir=parent)
        except (OSError, ValueError) as e:
            raise self._refuse(e) from e
        self._handle = _lock_folder(self.temporary)

    def commit(self) -> None:
        """Flushes the files to disk, and gives the folder its name."""
        try:
            os.chmod(self.temporary, new_mode(0o777))  # mkdtemp sets the owner's only
            for name in os.listdir(self.temporary):
                with open(os.path.join(self.temporary, name), "rb+") as file:
                    os.fsync(file.fileno())
            sync_folder(self.temporary)
            self._replace()
        except OSError as e:
            raise self._refuse(e) from e
        sync_folder(os.path.dirname(self.path))

    def _replace(self) -> None:
        """Renames the folder; puts the old one back if that fails."""
        old = f"{self.temporary}-old"
        if not os.path.isdir(self.path):
            os.rename(self.temporary, self.path)
            return
        os.rename(self.path, old)
        try:
            os.rename(self.temporary, self.path)
        except OSError:
            os.rename(old, self.path)
            raise
        _remove(old)

    def discard(self) -> None:
        """Removes the temporary folder; does nothing after commit."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
        _remove(self.temporary)

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

    def _refuse(self, e: OSError | ValueError) -> ModelError:
        return ModelError(unwritable(self.path, e, "folder"))


def entries(path: str | os.PathLike[str]) -> set[str]:
    """Returns the names in a folder; none if there is no such folder."""
    try:
        return set(os.listdir(path))
    except (OSError, ValueError):
        return set()


def remove_leftover_folders(parent: str | os.PathLike[str]) -> None:
    """Removes temporary folders of killed processes, but not those of running ones."""
    with contextlib.suppress(OSError):
        for name in os.listdir(parent):
            leftover = os.path.join(parent, name)
            if name.startswith(UNFINISHED) and os.path.isdir(leftover):
                handle = _lock_folder(leftover)
                if handle is not None:
                    os.close(handle)
                    _remove(leftover)


def _lock_folder(folder: str) -> int | None:
    """Locks a folder until the handle that it returns is closed; None if that is impossible."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows cannot open folders
        return None
    if lock(handle):
        return handle
    os.close(handle)
    return None


def _remove(folder: str) -> None:
    """Removes a folder of files; does nothing if there is none."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))
        os.rmdir(folder)
