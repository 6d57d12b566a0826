"""Options of `odt fed`: data, clients, rounds and files."""

import click

from odt.cli.options.adapters import adapters_option
from odt.cli.options.exports import federation_exports
from odt.cli.options.rows import keyword_options
from odt.cli.options.sections import combine, option
from odt.cli.options.types import OutputPath
from odt.core.options.federation_options import FEDERATION_OPTIONS
from odt.core.options.option import DATA, EXPORT, VALIDATION

SERVER = ("strategy", "fraction", "offline")  # of odt fed simulate alone, as client_validation
server_options = keyword_options(FEDERATION_OPTIONS, *SERVER)
federation_options = keyword_options(
    {n: row for n, row in FEDERATION_OPTIONS.items() if n not in (*SERVER, "client_validation")}
)

data_options = combine(
    option(
        DATA,
        "--model",
        common=True,
        type=click.Path(),
        metavar="MODEL",
        help="Model that is trained: a .circle, circle+, .tflite or .onnx file.",
    ),
    option(
        DATA,
        "--data",
        common=True,
        type=click.Path(),
        metavar="DIR",
        help="Folder of odt gen-datafile: its split train is divided among the clients, and its "
        "split test, if there is one, is used for validation.",
    ),
)

held_options = combine(
    option(
        VALIDATION,
        "--validation-input",
        type=click.Path(),
        metavar="FILE",
        help="Model inputs of the validation samples; default: the split test of --data.",
    ),
    option(
        VALIDATION,
        "--validation-expected",
        type=click.Path(),
        metavar="FILE",
        help="Expected outputs (targets) of the validation samples.",
    ),
)

validation_options = combine(held_options, keyword_options(FEDERATION_OPTIONS, "client_validation"))

output_options = combine(
    option(
        EXPORT,
        "--log",
        type=OutputPath(),
        metavar="FILE",
        help="Write loss, metrics, counts and bytes by round: .csv, or .jsonl for JSON lines.",
    ),
    option(
        EXPORT,
        "--plot",
        common=True,
        type=OutputPath(),
        metavar="FILE",
        help="Draw the validation accuracy (or the first metric, or the loss) by round: .svg, or "
        ".png with matplotlib.",
    ),
    option(
        EXPORT,
        "--checkpoint",
        common=True,
        type=click.Path(),
        metavar="FILE",
        help="Resume a federation from FILE.",
    ),
    option(
        EXPORT,
        "--export-checkpoint",
        common=True,
        type=OutputPath(),
        metavar="FILE",
        help="Save a checkpoint (.odt) after each round.",
    ),
    adapters_option,
    federation_exports,
)
