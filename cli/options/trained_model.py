"""Options of commands that train a model and export it."""

import click

from odt.cli.options.adapters import adapter_options
from odt.cli.options.sections import EXPORT, combine, option

trained_model_options = combine(
    adapter_options,
    option(
        EXPORT,
        "--export-circle",
        type=click.Path(),
        metavar="FILE",
        help="Export the trained model as Circle.",
    ),
    option(
        EXPORT,
        "--export-tflite",
        type=click.Path(),
        metavar="FILE",
        help="Export the trained model as TFLite.",
    ),
)
