"""Options of `odt eval` that look at classes and at single samples."""

from pathlib import Path

import click

from odt.cli.options.sections import combine, option
from odt.core.options.option import DATA, LOSS

class_options = combine(
    option(
        LOSS,
        "--confusion",
        common=True,
        is_flag=True,
        help="Print the confusion matrix: samples by true and predicted class. Of more than 20 "
        "classes, print the pairs that are confused most often.",
    ),
    option(
        LOSS,
        "--confusion-csv",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Write the whole confusion matrix as CSV.",
    ),
    option(
        LOSS,
        "--per-class",
        common=True,
        is_flag=True,
        help="Print precision, recall, F1 and the number of samples of each class.",
    ),
)

sample_options = combine(
    option(
        DATA,
        "--wrong",
        common=True,
        type=click.IntRange(1),
        metavar="N",
        help="Print the N most wrong samples: the wrongly predicted ones with the largest loss; "
        "for values, those with the largest loss.",
    ),
    option(
        DATA,
        "--sheet",
        type=click.Path(path_type=Path),
        metavar="PNG",
        help="Write a contact sheet: one image that shows the samples of --wrong.",
    ),
    option(
        DATA,
        "--per-sample",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Write loss, target and prediction of each sample as CSV.",
    ),
)
