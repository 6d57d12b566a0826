"""Recipes: the options of `odt train` as TOML."""

from typing import Any

from odt.core.storage.reading import read_input, reading
from odt.errors import OdtError

MAX_BYTES = 1 << 20  # of a recipe


def parse_recipe(path: str) -> dict[str, Any]:
    """Reads a recipe; returns its values by option, as in the file.

    Raises:
        OdtError: if the file cannot be read, or is not TOML.
    """
    import tomllib  # which the help of `odt train` does not need

    content = read_input(path, "a recipe in TOML", OdtError, MAX_BYTES)
    with reading(path, "must be a recipe in TOML", OdtError):
        values = tomllib.loads(content.decode())
        # TOML has hexadecimal integers of any size, and Python does not print one of more than
        # 4,300 digits. Such a file is refused here, not where a message names the value.
        repr(values)
    return values
