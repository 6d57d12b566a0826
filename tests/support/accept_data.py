"""Where the complete data is, for the runs of `make accept DATA=…`."""

import os
from pathlib import Path


def complete(*parts: str) -> Path:
    """A path in the folder that ODT_ACCEPT_DATA names."""
    return Path(os.environ.get("ODT_ACCEPT_DATA", "")).joinpath(*parts)
