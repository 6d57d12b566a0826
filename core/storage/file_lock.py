"""Locks of files and folders that one process at a time may write."""

import contextlib
import os
from typing import Self

from odt.core.storage.atomic_files import UNFINISHED
from odt.core.storage.closing import Closing
from odt.errors import OdtError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]  # a module or nothing

FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)


class FileLock(Closing):
    """Keeps other processes from writing a file or folder during a `with` block.

    The lock ends with the process, however it ends. It is a lock of the system on a hidden file
    beside the file, or inside the folder, which is removed at the end; what a killed process leaves
    blocks nobody. Where folder or system allow no such file, there is no lock.

    Args:
        path: the file, which need not exist; or the folder.
        where: its name in the message, such as an option with its value.
    """

    def __init__(self, path: str | os.PathLike[str], where: str) -> None:
        target = os.path.realpath(path)
        self._where = where
        self._handle: int | None = None
        folder, name = (target, "folder") if os.path.isdir(target) else os.path.split(target)
        self._file = os.path.join(folder, f"{UNFINISHED}{name}.lock")

    def __enter__(self) -> Self:
        """Locks the file.

        Raises:
            OdtError: if another process has locked it.
        """
        while self._handle is None and fcntl is not None:
            try:
                handle = os.open(self._file, FLAGS, 0o666)
            except (OSError, ValueError):  # writing will say what is wrong with the path
                break
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                owner = os.pread(handle, 20, 0).decode(errors="replace").strip()
                os.close(handle)
                raise OdtError(
                    f"{self._where}: must be written by one process at a time, but is in use by "
                    f"process {owner or 'unknown'}. Wait until it ends, or give another name."
                ) from None
            except OSError:  # the file system has no locks
                os.close(handle)
                break
            if self._is_there(handle):
                self._handle = handle
                with contextlib.suppress(OSError):  # a full disk
                    os.ftruncate(handle, 0)
                    os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
            else:  # its owner removed it in between
                os.close(handle)
        return self

    def _is_there(self, handle: int) -> bool:
        try:
            return os.path.samestat(os.fstat(handle), os.stat(self._file))
        except FileNotFoundError:
            return False

    def close(self) -> None:
        if self._handle is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._file)
            os.close(self._handle)
            self._handle = None
