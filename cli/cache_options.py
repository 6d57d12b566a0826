"""Options of what is kept of the frozen part, shared by the commands that know of it."""

import click
import numpy as np

from odt.cli.options import stack
from odt.errors import OptionError

cache_options = stack(
    click.option(
        "--cache-frozen",
        is_flag=False,
        flag_value="ram",
        type=click.Choice(["ram", "disk"]),
        help="Keep what the part that does not train makes of each sample, in memory if nothing "
        "is said: later epochs compute the rest alone.",
    ),
    click.option(
        "--cache-dtype",
        type=click.Choice(["float32", "float16"]),
        help="Of what --cache-frozen keeps; float16 takes half the room and rounds.",
    ),
)


def kept_dtype(cache_frozen: str | None, cache_dtype: str | None) -> np.dtype[np.floating] | None:
    """What floats are kept as; None for what they are.

    Raises:
        OptionError: if nothing is to be kept.
    """
    if cache_dtype and not cache_frozen:
        raise OptionError("--cache-dtype: must come with --cache-frozen, but got it alone")
    return np.dtype(np.float16) if cache_dtype == "float16" else None
