"""Options of drawing the boxes that a detector finds."""

from pathlib import Path

import click

from odt.cli.options.sections import combine
from odt.cli.options.types import Finite
from odt.datasets.boxes.drawing import LEAST_SCORE

draw_options = combine(
    click.option(
        "--draw",
        type=click.Path(path_type=Path),
        metavar="PATH",
        help="Draw the boxes of a detector: a .png or .jpg of one sample, or a folder with an "
        "image of each.",
    ),
    click.option(
        "--min-score",
        type=Finite(0, 1),
        show_default=str(LEAST_SCORE),
        help="Smallest score of a box of a detector that is printed and drawn.",
    ),
)
