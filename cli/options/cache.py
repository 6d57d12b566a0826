"""Options of the frozen layers: their cache, and int8."""

import click

from odt.cli.options.sections import combine, option
from odt.core.options.option import MEMORY

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
        help="Type of the cached values; float16 rounds them and halves the size of the cache.",
    ),
    option(
        MEMORY,
        "--frozen-int8",
        is_flag=True,
        help="Compute the frozen layers of a float MODEL in int8, quantized as by odt quantize "
        "with ranges from the training inputs. The exported model keeps their float weights.",
    ),
)
