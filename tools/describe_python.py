"""Prints the Python of the tests and the packages that have no wheels for it.

python tools/describe_python.py; `make test` begins with it. Tests that import such a package are
skipped and name it (tests/conftest.py).
"""

import platform
import sys
from importlib import metadata
from importlib.util import find_spec

# Package → the first Python for which there were no wheels in November 2026.
NO_WHEELS = {"onert": (3, 13), "ai_edge_litert": (3, 15), "h5py": (3, 15)}


def missing() -> tuple[str, ...]:
    """Returns the packages that are not installed because they have no wheels for this Python."""
    return tuple(
        name
        for name, first in NO_WHEELS.items()
        if sys.version_info[:2] >= first and find_spec(name) is None
    )


def description() -> str:
    """Returns the line that is printed."""
    line = f"Python {platform.python_version()}, NumPy {metadata.version('numpy')}"
    names = ", ".join(missing())
    reason = f"; tests with {names} are skipped: there are no wheels for this Python"
    return line + reason if names else line


if __name__ == "__main__":
    print(description())
