"""Options of the cache of frozen layers."""

import click
import numpy as np

from odt.cli.options.sections import MEMORY, combine, option
from odt.core.training.frozen_cache import CachePolicy
from odt.errors import OptionError

cache_options = combine(
    option(
        MEMORY,
        "--cache-frozen",
        is_flag=False,
        flag_value="ram",
        type=click.Choice(["ram", "disk"]),
        help="Cache the outputs of the frozen layers, so that later epochs compute the trained "
        "layers only; ram if no value is given.",
    ),
    option(
        MEMORY,
        "--cache-dtype",
        type=click.Choice(["float32", "float16"]),
        show_default="float32",
        help="Type of the cached values; float16 halves the cache and rounds.",
    ),
)


def what_to_keep(
    cache_frozen: str | None, cache_dtype: str | None, samples: int
) -> CachePolicy | None:
    """Returns the cache policy that the options ask for; None for no cache.

    Raises:
        OptionError: if --cache-dtype comes without --cache-frozen.
    """
    if cache_dtype and not cache_frozen:
        raise OptionError("--cache-dtype: must come with --cache-frozen, but got it alone")
    if not cache_frozen:
        return None
    dtype = np.dtype(np.float16) if cache_dtype == "float16" else None
    return CachePolicy(samples, dtype, cache_frozen == "disk")
