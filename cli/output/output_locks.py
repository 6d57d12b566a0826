"""Keeps other processes from writing what a command writes."""

import os
from collections.abc import Mapping

import click

from odt.core.storage.file_lock import FileLock

HELD = f"{__name__}.held"  # in a context: the files and folders that are locked


def hold(outputs: Mapping[str, str | None]) -> None:
    """Locks files or folders until the command ends.

    Args:
        outputs: paths by option; None for an option that was left out.

    Raises:
        OdtError: if another process writes one of them.
    """
    ctx = click.get_current_context()
    locks = ctx.meta.setdefault(HELD, set())
    for option, path in outputs.items():
        if path and (name := os.path.abspath(path)) not in locks:
            ctx.with_resource(FileLock(path, f"{option} {path}"))
            locks.add(name)
