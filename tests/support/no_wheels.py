"""Skips tests that need a package without wheels for this Python, and names it."""

import sys

import pytest
from describe_python import missing

MISSING = missing()


def skip_without(name: str) -> None:
    """Skips the test, or the module that is imported, if there is no wheel of a package."""
    if name in MISSING:
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        pytest.skip(f"{name} has no wheel for Python {version}", allow_module_level=True)


class SkippingFinder:
    """Finder of modules that nothing else finds: skips what imports such a package."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        skip_without(name)
