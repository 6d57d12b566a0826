"""Options of `odt.personalize`, which are options of `odt personalize` too."""

from typing import Any

from odt.core.options.option import (
    DATA,
    MAX_SAMPLES,
    OPTIMIZER,
    REPLAY,
    VALIDATION,
    File,
    Form,
    Number,
    Whole,
    Word,
    option,
    rows_of,
)
from odt.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class PersonalizeOptions:
    """Options of a personalization. Each field is the row of an option."""

    epochs: int = option(
        15, Whole(0), DATA, "Number of epochs; 0 only stores features of the samples."
    )
    batch_size: int = option(32, Whole(1, MAX_SAMPLES), DATA, "Batch size: samples per step.")
    seed: int = option(
        0,
        Whole(0),
        DATA,
        "Random seed of the held-back samples, the reservoir and the order of the samples.",
    )
    learning_rate: float = option(
        1e-3,
        Form("number", "a number above 0"),
        OPTIMIZER,
        "Learning rate of Adam.",
        spellings=("learning-rate", "lr"),
    )
    held_back: float = option(
        0.2,
        Number("at least 0 and below 1", most=1, open_most=True),
        VALIDATION,
        "Fraction of the new samples of each class that is held back from training, to decide "
        "whether the new model is written; 0 for none.",
    )
    forgetting: float = option(
        0.1,
        Number("from 0 to 1", most=1),
        VALIDATION,
        "Largest accepted fall of the accuracy on the stored samples. If it falls more, the new "
        "model is not written.",
    )
    store: Any = option(
        None,
        File(),
        REPLAY,
        "File of the stored features.",
        metavar="FILE",
        shown_default="the model's name with .features.npz",
    )
    samples_per_class: int = option(
        20,
        Whole(1),
        REPLAY,
        "Number of samples of each class to store, at most.",
        metavar="N",
    )
    store_bytes: int | str = option(
        "1MB",
        Form("size", "a number of bytes, or a size such as 64MB or 64MiB"),
        REPLAY,
        "Size of the file of stored features, at most.",
        metavar="SIZE",
    )
    sampling: str = option(
        "reservoir",
        Word(("reservoir", "herding")),
        REPLAY,
        "Samples to store of each class. reservoir: a random choice of all that were ever seen. "
        "herding: those whose mean is closest to the mean of all.",
    )


PERSONALIZE_OPTIONS = rows_of(PersonalizeOptions)
