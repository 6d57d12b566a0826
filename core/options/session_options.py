"""Options of `odt.Trainer` about memory, metrics and the best epoch: all but its recipe."""

from typing import Any

from odt.core.options.option import (
    EXPORT,
    LOSS,
    MEMORY,
    VALIDATION,
    File,
    Form,
    Switch,
    Word,
    option,
    rows_of,
)
from odt.dataclass import dataclass

BOX_METRICS = ("map", "map50")  # mean average precision over thresholds of the overlap, and at 0.5


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """Options of a trainer that do not change how a step updates weights.

    Each field is the row of an option.
    """

    metrics: Any = option(
        (),
        Form("metric", "names of [metrics](#metrics)", several="list"),
        LOSS,
        "Metric to report besides the loss. accuracy selects the accuracy that fits the loss; "
        "replace k in top-k-accuracy by a number. Repeatable.",
        spellings=("metric",),
        federated=True,
        common=True,
    )
    task: str | None = option(
        None,
        Word(("boxes",)),
        LOSS,
        "Task whose targets are not arrays like the outputs: boxes, for object detectors. Losses, "
        "trained layers and ranges then have the defaults of the detector's family.",
        shown_default="that of the data",
    )
    memory_budget: int | str | None = option(
        None,
        Form("size", "a number of bytes, or a size such as 64MB or 64MiB"),
        MEMORY,
        "Peak memory of the whole process, with Python, such as 64MB or 64MiB. odt chooses "
        "micro-batch, workers, recomputation and order so that it fits.",
        metavar="SIZE",
        federated=True,
        common=True,
    )
    cache_frozen: str | None = option(
        None,
        Word(("ram", "disk"), implied="ram"),
        MEMORY,
        "Cache the outputs of the frozen layers, so that later epochs compute the trained layers "
        "only; ram if no value is given.",
    )
    cache_dtype: str | None = option(
        None,
        Word(("float32", "float16")),
        MEMORY,
        "Type of the cached values; float16 rounds them and halves the size of the cache.",
        shown_default="float32",
    )
    monitor: str = option(
        "val_loss",
        Form("text", "loss, val_loss, or a metric with or without val_"),
        VALIDATION,
        "Value that `keep_best=`, `patience=` and `schedule=plateau` compare: loss, val_loss, or a "
        "`metrics=`, with the prefix val_ for its validation value.",
        metavar="NAME",
    )
    keep_best: bool = option(
        False,
        Switch(),
        VALIDATION,
        "Export the weights of the epoch with the best value of `monitor=` instead of the last "
        "epoch's.",
        common=True,
    )
    checkpoint: Any = option(
        None,
        File(),
        EXPORT,
        "Resume from FILE. An .odt file restores options and position; an onert file restores "
        "weights and optimizer state.",
        metavar="FILE",
        common=True,
    )


SESSION_OPTIONS = rows_of(SessionOptions)
