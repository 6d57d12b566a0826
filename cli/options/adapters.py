"""Options of low-rank adapters."""

import click

from odt.cli.options.rows import keyword_options
from odt.cli.options.sections import combine, option
from odt.cli.options.types import OutputPath
from odt.core.options.model_options import MODEL_OPTIONS
from odt.core.options.option import EXPORT, SELECTION

added_option = keyword_options(MODEL_OPTIONS, "adapters")
adapters_option = option(
    SELECTION,
    "--adapters",
    type=click.Path(),
    metavar="FILE",
    help="Low-rank adapters (odt lora) to add to the model; only the adapters train.",
)
adapter_options = combine(
    adapters_option,
    option(
        EXPORT,
        "--export-adapters",
        type=OutputPath(),
        metavar="FILE",
        help="Export only the trained low-rank adapters, as .npz. Other exports merge them into "
        "the weights.",
    ),
)
