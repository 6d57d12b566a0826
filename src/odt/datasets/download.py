"""Downloads published files, verifies their checksums, and resumes interrupted downloads."""

import hashlib
import http.client
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from http import HTTPStatus
from pathlib import Path

from odt.core.storage.reading import open_input, printable, unwritable
from odt.dataclass import dataclass
from odt.errors import DataError

COPY = 1 << 18  # bytes that are read at once
MAX_BYTES = 4 << 30  # of a file; the largest that is published has 0.6 GB
MAX_REASON = 160  # characters
TIMEOUT = 30  # seconds without a byte
PARTIAL = ".download"  # suffix of an incomplete file


@dataclass(frozen=True, slots=True)
class Remote:
    """A file to download.

    Attributes:
        url: address of the file.
        md5: published checksum in hexadecimal.
    """

    url: str
    md5: str

    @property
    def name(self) -> str:
        """Name of the file, the last part of its address."""
        return self.url.rpartition("/")[2]


def download(
    files: Sequence[Remote], folder: Path, progress: Callable[[str, int, int | None], None]
) -> None:
    """Downloads the files that do not exist yet.

    Args:
        files: the files.
        folder: folder for the files.
        progress: called with file name, bytes so far, and total bytes if known.

    Raises:
        DataError: if the network fails, or a file does not have the published checksum.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise DataError(unwritable(folder, e, "folder")) from e
    for file in files:
        path = folder / file.name
        if path.exists():
            _check(path, path, file)
            continue
        partial = path.with_name(path.name + PARTIAL)
        try:
            _fetch(file, partial, progress)
        except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as e:
            raise DataError(
                f"{file.url}: must be downloaded, but got: {_reason(e)}. Put {file.name} into "
                f"{folder} yourself, or try again: the download resumes."
            ) from e
        _check(partial, path, file)
        partial.rename(path)


def _fetch(file: Remote, partial: Path, progress: Callable[[str, int, int | None], None]) -> None:
    """Downloads what an incomplete file lacks; raises OSError if the server's answer is bad."""
    received = partial.stat().st_size if partial.exists() else 0
    headers = {"Range": f"bytes={received}-"} if received else {}
    request = urllib.request.Request(file.url, headers=headers)
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as e:
        if received and e.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:  # nothing is missing
            return
        raise
    resumes = response.status == HTTPStatus.PARTIAL_CONTENT  # else the server sends the whole file
    with response, open(partial, "ab" if resumes else "wb") as out:
        received = out.tell()
        length = response.headers.get("Content-Length", "")
        if length and not re.fullmatch("[0-9]{1,18}", length):
            raise OSError(f"Content-Length {printable(length)} instead of a number")
        total = received + int(length) if length else None
        if total is not None and total > MAX_BYTES:
            raise OSError(f"{total} bytes instead of at most {MAX_BYTES}")
        while chunk := response.read(COPY):
            received += len(chunk)
            if received > MAX_BYTES:
                raise OSError(f"more than {MAX_BYTES} bytes")
            out.write(chunk)
            progress(file.name, received, total)
        if total is not None and received < total:
            raise OSError(f"the connection ended after {received} of {total} bytes")


def _check(downloaded: Path, path: Path, file: Remote) -> None:
    """Raises DataError if a file does not have its checksum; deletes it if it is incomplete.

    Args:
        downloaded: the file, which is `path`, or is renamed to it afterwards.
        path: the file in messages.
        file: its published checksum.
    """
    with open_input(downloaded) as f:
        digest = hashlib.file_digest(f, "md5").hexdigest()
    if digest == file.md5:
        return
    remedy = "Delete it and download it again, or leave `download=True` out to use it unchanged."
    if downloaded != path:
        downloaded.unlink()  # the next attempt must not resume from it
        remedy = f"It is deleted: try again, or put {file.name} into {path.parent} yourself."
    raise DataError(f"{path}: must have the published md5 {file.md5}, but got {digest}. {remedy}")


def _reason(e: Exception) -> str:
    """Returns the reason of an error of the network, in one line."""
    reason = e.reason if isinstance(e, urllib.error.URLError) else e
    return printable(" ".join(str(reason).split()).removesuffix("."), MAX_REASON)
