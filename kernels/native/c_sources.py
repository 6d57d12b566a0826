"""The C files of the kernels, which `odt compile` copies.

setup.py runs this file to write them into the wheel. It imports nothing of odt.
"""

import bz2
import json
from pathlib import Path

PACKAGE = Path(__file__).parent
ARCHIVE = "sources.json.bz2"
FOLDER = "kernels/native/src"  # in a checkout


def sources_of(folder: Path) -> dict[str, str]:
    """Returns the C files of a folder: name → text."""
    return {path.name: path.read_text("utf-8") for path in sorted(folder.glob("*.[ch]"))}


def archive_of(folder: Path) -> bytes:
    """Returns the C files of a checkout as the file of a wheel."""
    return bz2.compress(json.dumps(sources_of(folder / FOLDER), ensure_ascii=False).encode())


def read_sources() -> dict[str, str]:
    """Returns the C files of this installation: name → text; none if they are missing."""
    path = PACKAGE / ARCHIVE
    if path.exists():
        texts: dict[str, str] = json.loads(bz2.decompress(path.read_bytes()))
        return texts
    return sources_of(PACKAGE / "src")
