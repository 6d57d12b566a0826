"""Option of low-rank adapters, which commands add to the model."""

import click

from odt.cli.options.rows import keyword_options
from odt.cli.options.sections import option
from odt.core.options.model_options import MODEL_OPTIONS
from odt.core.options.option import SELECTION

added_option = keyword_options(MODEL_OPTIONS, "adapters")
# The same option of commands that train.
adapters_option = option(
    SELECTION,
    "--adapters",
    type=click.Path(),
    metavar="FILE",
    help="Low-rank adapters (odt lora, PEFT or GGUF) to add to the model; only the adapters train.",
)
