"""Options of what is kept of the frozen part, shared by the commands that know of it."""

import click
import numpy as np

from odt.cli.options.shared import stack
from odt.core.training.frozen_cache import CachePolicy
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


def what_to_keep(
    cache_frozen: str | None, cache_dtype: str | None, samples: int
) -> CachePolicy | None:
    """What the options ask for; None for nothing.

    Raises:
        OptionError: if one of them comes without the other.
    """
    if cache_dtype and not cache_frozen:
        raise OptionError("--cache-dtype: must come with --cache-frozen, but got it alone")
    if not cache_frozen:
        return None
    dtype = np.dtype(np.float16) if cache_dtype == "float16" else None
    return CachePolicy(samples, dtype, cache_frozen == "disk")
