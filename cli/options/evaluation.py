"""Options of `odt eval` that look at classes and at single samples."""

from pathlib import Path

import click

from odt.cli.options.rows import declare, declared_options
from odt.cli.options.types import NewFile
from odt.core.options.option import DATA, LOSS
from odt.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class EvaluationOptions:
    """What `odt eval` prints and writes besides loss and metrics."""

    confusion: bool = declare(
        LOSS,
        "--confusion",
        common=True,
        is_flag=True,
        help="Print the confusion matrix: samples by true and predicted class. Of more than 20 "
        "classes, print the pairs that are confused most often.",
    )
    confusion_csv: Path | None = declare(
        LOSS,
        "--confusion-csv",
        type=NewFile(".csv", path_type=Path),
        metavar="FILE",
        help="Write the whole confusion matrix as CSV.",
    )
    per_class: bool = declare(
        LOSS,
        "--per-class",
        common=True,
        is_flag=True,
        help="Print precision, recall, F1 and the number of samples of each class.",
    )
    wrong: int | None = declare(
        DATA,
        "--wrong",
        common=True,
        type=click.IntRange(1),
        metavar="N",
        help="Print the N most wrong samples: the wrongly predicted ones with the largest loss; "
        "for values, those with the largest loss; for boxes, those with the most missed and false "
        "boxes.",
    )
    sheet: Path | None = declare(
        DATA,
        "--sheet",
        type=NewFile(".png", path_type=Path),
        metavar="PNG",
        help="Write a contact sheet: one image that shows the samples of --wrong, or those of a "
        "detector with their boxes.",
    )
    per_sample: Path | None = declare(
        DATA,
        "--per-sample",
        type=NewFile(".csv", path_type=Path),
        metavar="FILE",
        help="Write loss, target and prediction of each sample as CSV; for boxes, loss and the "
        "numbers of true, missed and false boxes.",
    )

    @property
    def needs_classes(self) -> bool:
        """Whether the targets must be classes."""
        return bool(self.confusion or self.confusion_csv or self.per_class)

    @property
    def needs_samples(self) -> bool:
        """Whether the loss of each sample is needed."""
        return self.wrong is not None or self.per_sample is not None


class_options = declared_options(EvaluationOptions, "confusion", "confusion_csv", "per_class")
sample_options = declared_options(EvaluationOptions, "wrong", "sheet", "per_sample")
