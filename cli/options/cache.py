"""Options of the frozen layers: their cache, and int8."""

from odt.cli.options.rows import keyword_options
from odt.cli.options.sections import combine, option
from odt.core.options.option import MEMORY
from odt.core.options.session_options import SESSION_OPTIONS

cache_options = keyword_options(SESSION_OPTIONS, "cache_frozen", "cache_dtype")
frozen_options = combine(
    cache_options,
    option(
        MEMORY,
        "--frozen-int8",
        is_flag=True,
        help="Compute the frozen layers of a float MODEL in int8, quantized as by odt quantize "
        "with ranges from the training inputs. The exported model keeps their float weights.",
    ),
)
