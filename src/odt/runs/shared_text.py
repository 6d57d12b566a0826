"""Texts of a run without the folders of the machine, since reports are shared."""

import os
import re
from collections.abc import Iterator

from odt.runs.run import Run

SEPARATORS = "/\\"
# An absolute path of POSIX or Windows whose last part remains; not the end of a word or address.
PATH = re.compile(
    r"(?<![\w.:/\\~…-])(?:/|[A-Za-z]:\\{1,2})(?:[^/\\\s\"',;:<>|]+[/\\]{1,2})+(?=[^/\\\s])"
)


def without_folders(run: Run, text: str) -> str:
    """Returns a text in which absolute paths have only their last part.

    Args:
        run: the run, whose folders may have names of any characters.
        text: the text.
    """
    for folder in sorted({*_folders(run)}, key=len, reverse=True):
        for name in (folder, folder.replace("\\", "\\\\")):  # as TOML and JSON write it
            text = re.sub(rf"{re.escape(name)}[/\\]+", "", text)
    return PATH.sub("", text)


def file_name(path: str) -> str:
    """Returns the last part of a path of any system."""
    return re.split(r"[/\\]", path.rstrip(SEPARATORS))[-1]


def _folders(run: Run) -> Iterator[str]:
    """Yields the folders of all absolute paths that a run names, and its own."""
    values = [value for value in run.recipe.values() if isinstance(value, str)]
    values += [file["path"] for file in run.record.get("files", {}).values()]
    values += run.record.get("outputs", {}).values()
    values += [str(run.path), str(run.path.resolve())]
    for value in values:
        folder = re.sub(r"[/\\]+[^/\\]*$", "", value)
        if len(folder) > 1 and (os.path.isabs(value) or re.match(r"[A-Za-z]:\\", value)):
            yield folder
