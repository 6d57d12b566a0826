"""Wheels as archives whose bytes depend on their content alone."""

import base64
import csv
import hashlib
import io
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

TIME = (1980, 1, 1, 0, 0, 0)  # the first that a zip file can name
REGULAR, EXECUTABLE = 0o100644, 0o100755
LIBRARIES = (".so", ".pyd")


def read_wheel(path: Path) -> dict[str, bytes]:
    """The files of a wheel by name, without RECORD and those that only old tools read.

    These are a list of packages, and empty __init__.py: the folders of a package are packages
    without them, too (PEP 420).
    """
    left_out = ".dist-info/RECORD", ".dist-info/top_level.txt", "/"
    with zipfile.ZipFile(path) as wheel:
        files = {n: wheel.read(n) for n in wheel.namelist() if not n.endswith(left_out)}
    return {n: data for n, data in files.items() if data.strip() or not n.endswith("/__init__.py")}


def wheel_text(tags: Sequence[str], is_pure: bool) -> bytes:
    """The file WHEEL."""
    lines = ["Wheel-Version: 1.0", "Generator: odt tools/wheels"]
    lines += [f"Root-Is-Purelib: {str(is_pure).lower()}", *(f"Tag: {tag}" for tag in tags)]
    return ("\n".join(lines) + "\n").encode()


def write_wheel(
    files: Mapping[str, bytes],
    tags: Sequence[str],
    folder: Path,
    archive: Callable[..., zipfile.ZipFile] = zipfile.ZipFile,
) -> Path:
    """Writes a wheel; the same files give the same bytes.

    Args:
        files: by name, one of them *.dist-info/METADATA; RECORD and WHEEL are made here.
        tags: such as py3-none-any.
        folder: where to.
        archive: makes the archive and compresses the files.
    """
    info = next(n for n in files if n.endswith(".dist-info/METADATA")).partition("/")[0]
    is_pure = not any(name.endswith(LIBRARIES) for name in files)
    files = {**files, f"{info}/WHEEL": wheel_text(tags, is_pure)}
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    # The installer reads the metadata first, if it comes last.
    for name in sorted(files, key=lambda n: (n.startswith(info), n)):
        digest = base64.urlsafe_b64encode(hashlib.sha256(files[name]).digest()).rstrip(b"=")
        rows.writerow((name, f"sha256={digest.decode()}", len(files[name])))
    rows.writerow((f"{info}/RECORD", "", ""))
    python, abi, _ = tags[0].split("-")
    platforms = ".".join(tag.split("-")[2] for tag in tags)
    path = folder / f"{info.removesuffix('.dist-info')}-{python}-{abi}-{platforms}.whl"
    with archive(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for line in record.getvalue().splitlines():
            name = line.partition(",")[0]
            entry = zipfile.ZipInfo(name, TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix, which has modes
            mode = EXECUTABLE if name.endswith(LIBRARIES) else REGULAR
            entry.external_attr = mode << 16
            wheel.writestr(entry, files.get(name, record.getvalue().encode()))
    return path
