"""Options of the learning rate range test of `odt train`."""

from odt.cli.options.sections import combine, option
from odt.cli.options.types import OutputPath
from odt.core.options.option import OPTIMIZER

find_rate_options = combine(
    option(
        OPTIMIZER,
        "--find-rate",
        is_flag=True,
        help="Learning rate range test instead of training: print the losses of some steps with a "
        "growing rate, and a suggested rate.",
    ),
    option(
        OPTIMIZER,
        "--png",
        type=OutputPath(),
        metavar="FILE",
        help="Write a plot of --find-rate as PNG.",
    ),
)
