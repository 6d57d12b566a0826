"""Files appear whole or not at all."""

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from odt.errors import ModelError, OdtError


def write_atomically(
    path: str | os.PathLike[str], chunks: Iterable[Any], error: type[OdtError] = ModelError
) -> None:
    """Writes a file, or leaves what was there.

    A temporary file in the same folder is written, synchronised with the disk and renamed, so
    that a reader of the old file, mapped or open, keeps it. A symbolic link stays a link.

    Args:
        chunks: bytes-like objects, in order.
        error: what to raise.

    Raises:
        OdtError: of the given class, if the file cannot be written.
    """
    target = Path(os.path.realpath(path))
    temporary = None
    try:
        if target.exists() and not target.is_file():
            raise OSError("it is there and is no file")
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        with open(handle, "wb") as file:
            for chunk in chunks:
                file.write(chunk)
            file.flush()
            os.fchmod(file.fileno(), _mode(target))
            os.fsync(file.fileno())
        os.replace(temporary, target)
        temporary = None
    except OSError as e:
        raise error(f"{path}: must be a file that can be written, but got: {_reason(e)}") from e
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
    _sync_folder(target.parent)


def _mode(target: Path) -> int:
    """Permissions of the old file, or those a new file gets; mkstemp gives only the owner any."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _reason(e: OSError) -> str:
    return (e.strerror or str(e)).lower()


def _sync_folder(folder: Path) -> None:
    """Makes the rename survive a power cut, where the system can."""
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
