"""Options of the learning rate range test of `odt train`."""

from odt.cli.options.rows import declare, declared_options
from odt.cli.options.types import OutputPath
from odt.core.options.option import OPTIMIZER
from odt.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class RateTestOptions:
    """Options of the learning rate range test."""

    find_rate: bool = declare(
        OPTIMIZER,
        "--find-rate",
        is_flag=True,
        help="Learning rate range test instead of training: print the losses of some steps with a "
        "growing rate, and a suggested rate.",
    )
    png: str | None = declare(
        OPTIMIZER,
        "--png",
        type=OutputPath(".png"),
        metavar="FILE",
        help="Write a plot of --find-rate as PNG.",
    )


find_rate_options = declared_options(RateTestOptions)
