"""Options of `odt.Trainer.fit`, which are keywords in Python and options of `odt train`."""

from collections.abc import Mapping
from typing import Any

from odt.core.options.option import (
    CHECKPOINT,
    COMPARED,
    DATA,
    EXPORT,
    LOSS,
    VALIDATION,
    File,
    Form,
    Number,
    Switch,
    Whole,
    option,
    rows_of,
)
from odt.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class FitOptions:
    """Options of a call of `fit`. Each field is the row of an option.

    None leaves the choice to the checkpoint, else to odt. The command line lists the options of a
    section in this order.
    """

    epochs: int = option(
        1,
        Whole(0),
        DATA,
        "Number of epochs: passes over the training data.",
        common=True,
        of_train=5,
    )
    max_steps: int | None = option(
        None, Whole(1), DATA, "Stop after step N, counted from the first epoch.", metavar="N"
    )
    max_time: float | None = option(
        None,
        Form(
            "duration",
            "seconds, or a time such as 1h30m",
            Number("a number of seconds of at least 0"),
        ),
        DATA,
        "Stop after this time, when the current step is complete: seconds, or a time with units "
        "such as 90s, 30m, 1h30m.",
        metavar="TIME",
    )
    shuffle: bool | None = option(
        None,
        Switch(off=True),
        DATA,
        "Shuffle the training samples in each epoch. On by default; off for command lines in ONE's "
        "spelling.",
        stored=CHECKPOINT,
    )
    seed: int | None = option(
        None,
        Whole(0),
        DATA,
        "Random seed of `shuffle=`, `stratify=`, `qas=`, `augment=` and `dropout=`.",
        stored=CHECKPOINT,
        shown_default="0",
        common=True,
    )
    drop_last: bool | None = option(
        None,
        Switch(off=True),
        DATA,
        "Drop the last batch if it is smaller than `batch_size=`. Off by default; on for command "
        "lines in ONE's spelling.",
        stored=CHECKPOINT,
    )
    augment: Any = option(
        None,
        Form("augmentations", "names of augmentations, with values", several="list"),
        DATA,
        "Data augmentation: random changes of the training samples, different in each epoch, such "
        "as flip,shift:0.1,rotate:15. Repeatable. odt docs augmentation lists all.",
        stored=CHECKPOINT,
        metavar="NAME[:VALUE],…",
        common=True,
    )
    new_data: bool = option(
        False,
        Switch(),
        DATA,
        "Train on other data than `checkpoint=` did: start at epoch 1 with the weights and "
        "optimizer state of `checkpoint=`.",
    )
    sample_weight: Any = option(
        None,
        File(),
        DATA,
        "Sample weights: a factor of the loss of each sample, or of each position of the targets, "
        "in the formats of `load_input=`.",
        stored=COMPARED,
        metavar="FILE",
    )
    data_length: int | None = option(
        None,
        Whole(1),
        DATA,
        "Use only the first N samples of the files, for training and validation together.",
        metavar="N",
    )
    check_data: bool = option(
        False,
        Switch(),
        DATA,
        "Check all values for NaN, infinity and invalid targets before the first step.",
    )
    class_weight: str | Mapping[int, float] | None = option(
        None,
        Form("class weight", "balanced, CLASS=WEIGHT,… or a JSON file"),
        LOSS,
        "Class weights: factors of the losses of training samples by class, 1 if left out. "
        "balanced gives every class the same total weight.",
        stored=CHECKPOINT,
    )
    validation_split: float = option(
        0.0,
        Form("number", "0 … 1", Number("0 … 1", most=1)),
        VALIDATION,
        "Fraction of the samples used for validation after each epoch.",
        common=True,
    )
    stratify: bool | None = option(
        None,
        Switch(off=True),
        VALIDATION,
        "Stratified split: draw the validation samples at random from each class, by `seed=`. "
        "Without it, or if the targets are not classes, the last samples are used. On by default; "
        "off for command lines in ONE's spelling.",
        stored=CHECKPOINT,
    )
    patience: int | None = option(
        None,
        Whole(1),
        VALIDATION,
        "Early stopping: stop after N epochs without an improvement of `monitor=`.",
        metavar="N",
        common=True,
    )
    save_to: Any = option(
        None,
        File(written=True),
        EXPORT,
        "Save checkpoints to FILE: in odt's format if its name ends in .odt, else in onert's.",
        metavar="FILE",
        spellings=("export-checkpoint",),
        common=True,
    )
    save_every: int | None = option(
        None,
        Form("interval", "step, epoch or a number of steps", Whole(0)),
        EXPORT,
        "Checkpoint interval: each step, each epoch, or N steps. The last step always saves one.",
        spellings=("export-checkpoint-every",),
        shown_default="epoch",
    )
    properties: Mapping[str, str | int | float] | None = option(
        None,
        Form("property", "NAME=VALUE", several="mapping"),
        EXPORT,
        "User metadata in odt's checkpoint. Repeatable.",
        stored=CHECKPOINT,
        metavar="NAME=VALUE",
        spellings=("property",),
    )


FIT_OPTIONS = rows_of(FitOptions)
