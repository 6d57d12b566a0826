"""Recipes: the options of `odt train` as TOML."""

from typing import Any

from odt.core.storage.reading import read_input, reading
from odt.errors import OdtError

MAX_BYTES = 1 << 20  # of a recipe


def parse_recipe(path: str) -> dict[str, Any]:
    """Reads a recipe; returns its values by option, as in the file.

    Raises:
        OdtError: if the file cannot be read.
    """
    import tomllib

    content = read_input(path, "a recipe in TOML", OdtError, MAX_BYTES)
    with reading(path, "must be a recipe in TOML", OdtError):
        values = dict(tomllib.loads(content.decode()))
        repr(values)  # raises ValueError now if an integer has too many digits to be printed
        return values
