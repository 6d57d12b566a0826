"""Paths of the complete data sets, for `make accept DATA=…`."""

import os
from pathlib import Path


def complete(*parts: str) -> Path:
    """Returns a path in the folder ODT_ACCEPT_DATA."""
    return Path(os.environ.get("ODT_ACCEPT_DATA", "")).joinpath(*parts)
