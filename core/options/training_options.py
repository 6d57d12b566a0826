"""Options of the steps of training, which training info and checkpoints have as fields."""

from dataclasses import KW_ONLY

from odt.core.options.option import (
    CHECKPOINT,
    DATA,
    MAX_SAMPLES,
    OPTIMIZER,
    Number,
    Switch,
    Whole,
    Word,
    option,
    rows_of,
)
from odt.dataclass import dataclass

# Ranges of quantized activations that move: none, all but the model's outputs, all.
QUANT_RANGES = FILE, FOLLOW, FOLLOW_ALL = ("file", "follow", "follow-all")


@dataclass(frozen=True, slots=True)
class TrainingOptions:
    """Options of the steps of training. Each field is the row of an option.

    `TrainingInfo` has them all, with the values of a run, and `Progress` of a checkpoint those that
    are stored. The command line and federations list them in this order.
    """

    _: KW_ONLY
    clip_norm: float = option(
        0.0,
        Number("a number above 0, or 0 for no clipping"),
        OPTIMIZER,
        "Gradient clipping: scale all gradients together to at most this norm.",
        stored=CHECKPOINT,
        federated=True,
    )
    clip_value: float = option(
        0.0,
        Number("a number above 0, or 0 for no clipping"),
        OPTIMIZER,
        "Gradient clipping: limit each value of a gradient to this magnitude.",
        stored=CHECKPOINT,
        federated=True,
    )
    accumulate: int = option(
        1,
        Whole(1, MAX_SAMPLES),
        DATA,
        "Gradient accumulation: K batches per step.",
        stored=CHECKPOINT,
        metavar="K",
        federated=True,
    )
    ema: float = option(
        0.0,
        Number("0 for none, or a number below 1", most=1, open_most=True),
        OPTIMIZER,
        "Exponential moving average of the weights, such as 0.999, for validation and exports; 0 "
        "for none.",
        stored=CHECKPOINT,
        metavar="DECAY",
        shown_default="0.95 for quantized models without `qas=`, else 0",
    )
    quant_ranges: str = option(
        FILE,
        Word(QUANT_RANGES),
        OPTIMIZER,
        "Ranges of the activations of a quantized model. file: as in the file. follow: they follow "
        "the values that training sees. follow-all: those of the model's outputs too.",
        stored=CHECKPOINT,
        shown_default=FILE,
    )
    qas: bool = option(
        False,
        Switch(),
        OPTIMIZER,
        "Keep the weights of a quantized model as integers in memory, and update them with "
        "quantization-aware scaling.",
    )


TRAINING_OPTIONS = rows_of(TrainingOptions)
