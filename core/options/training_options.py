"""Options of a recipe: how a model trains, and which of its weights.

Options of the steps of training come first; a new one is one row there.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, field
from typing import Any

from odt.core.options.option import (
    CHECKPOINT,
    CIRCLE_PLUS,
    COMPARED,
    DATA,
    LOSS,
    MAX_SAMPLES,
    OPTIMIZER,
    SELECTION,
    ByOutput,
    ByPattern,
    Form,
    Number,
    Option,
    RowName,
    Switch,
    Whole,
    Word,
    option,
    rows_of,
    table,
)
from odt.dataclass import dataclass
from odt.kernels.registry import LOSSES, OPTIMIZERS
from odt.kernels.rows.row_index import HYPER_PARAMETERS, SCHEDULES
from odt.kernels.rows.scheduledef import Schedule

REDUCTIONS = ("sum_over_batch_size", "sum")
BATCH_NORMS = FIXED, BATCH = ("fixed", "batch")  # statistics of batch normalization
# Ranges of quantized activations that move: none, all but the model's outputs, all.
QUANT_RANGES = FILE, FOLLOW, FOLLOW_ALL = ("file", "follow", "follow-all")
PRECISIONS = FLOAT32, BF16 = ("float32", "bf16")  # of the factors of products


@dataclass(frozen=True, slots=True)
class StepOptions:
    """Options of the steps of training. Each field is the row of an option.

    They are keywords of `odt.Trainer`. `TrainingInfo` has the values of a run, and `Progress` those
    of a checkpoint. The command line and federations list them in this order.
    """

    _: KW_ONLY
    clip_norm: float = option(
        0.0,
        Number("a number above 0, or 0 for no clipping"),
        OPTIMIZER,
        "Gradient clipping: scale all gradients together to at most this norm.",
        stored=CHECKPOINT,
        federated=True,
        clients=3.0,
        compiled=True,
    )
    clip_value: float = option(
        0.0,
        Number("a number above 0, or 0 for no clipping"),
        OPTIMIZER,
        "Gradient clipping: limit each value of a gradient to this magnitude.",
        stored=CHECKPOINT,
        federated=True,
        compiled=True,
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
        clients=0.0,
        compiled=True,
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
    batch_norm: str = option(
        FIXED,
        Word(BATCH_NORMS),
        OPTIMIZER,
        "Batch normalization of an ONNX file in training. fixed: with the statistics of the file. "
        "batch: with those of each batch; the statistics of the file move towards them.",
        stored=CHECKPOINT,
        shown_default=FIXED,
    )
    precision: str = option(
        FLOAT32,
        Word(PRECISIONS),
        OPTIMIZER,
        "Precision of the factors of products in training. bf16: layers and matrix products round "
        "them to bfloat16; weights, activations and sums stay float32. Needs a processor with "
        "AVX512_BF16.",
        stored=CHECKPOINT,
        shown_default=FLOAT32,
    )
    qas: bool = option(
        False,
        Switch(),
        OPTIMIZER,
        "Keep the weights of a quantized model as integers in memory, and update them with "
        "quantization-aware scaling.",
        compiled=True,
    )


@dataclass(frozen=True, slots=True)
class CheckpointOptions(StepOptions):
    """Options that a recipe and a checkpoint hold in the same form."""

    _: KW_ONLY
    reduction: str = option(
        REDUCTIONS[0],
        Word(REDUCTIONS, onert={"1": REDUCTIONS[0], "2": REDUCTIONS[1]}, first_zero=REDUCTIONS[0]),
        LOSS,
        "Reduction of the sample losses of a batch to one value.",
        stored=CIRCLE_PLUS,
        federated=True,
        spellings=("reduction", "loss-reduction-type"),
    )
    temperature: float = option(
        1.0,
        Number("a number above 0", open_least=True),
        LOSS,
        "Temperature of the probabilities of teacher and student.",
        stored=COMPARED,
        shown_default="2",
    )
    teacher_weight: float = option(
        0.0,
        Number("above 0, up to 1", most=1, open_least=True),
        LOSS,
        "Weight of the loss for the teacher's outputs; the loss for the targets has 1 minus this "
        "weight.",
        stored=COMPARED,
        shown_default="0.5",
    )


@dataclass(frozen=True, slots=True)
class TrainingOptions(CheckpointOptions):
    """Options of a recipe, as `TrainingInfo` has them.

    Attributes:
        hyper_parameters: values by name, whose rows are in kernels/optimizers.
    """

    optimizer: str = option(
        "adam",
        RowName(OPTIMIZERS, first_zero="sgd"),
        OPTIMIZER,
        "Optimizer.",
        stored=CIRCLE_PLUS,
        federated=True,
        common=True,
        clients="sgd",
    )
    hyper_parameters: Mapping[str, Any] = field(default_factory=dict)
    learning_rate: float = option(
        0.001,
        Form("number", "a number above 0", Number("a number above 0", open_least=True)),
        OPTIMIZER,
        "Learning rate. Default: the optimizer's; less for a model that is already trained.",
        stored=CIRCLE_PLUS,
        federated=True,
        common=True,
        clients=0.05,
        spellings=("learning-rate", "lr"),
    )
    loss: str | None = option(
        None,
        RowName(LOSSES, first_zero="mean_squared_error"),
        LOSS,
        "Loss function. Hyper-parameters follow a colon: huber:delta=0.5, "
        "categorical-crossentropy:label-smoothing=0.1.",
        stored=CIRCLE_PLUS,
        federated=True,
        common=True,
    )
    _: KW_ONLY
    output_losses: tuple[tuple[str, str], ...] = option(
        (),
        ByOutput(RowName(LOSSES, also=("none",)), "LOSS"),
        LOSS,
        "Loss function of one output, by name or number; none for no loss. Repeatable.",
        spellings=("output-loss",),
    )
    loss_weights: tuple[tuple[str, float], ...] = option(
        (),
        ByOutput(Number("numbers of at least 0"), "WEIGHT"),
        LOSS,
        "Weight of one output's loss in the total loss; 1 if left out. Repeatable.",
        spellings=("loss-weight",),
    )
    schedule: Schedule | None = option(
        None,
        RowName(SCHEDULES),
        OPTIMIZER,
        "Learning rate schedule, such as cosine or step:decay-rate=0.5,decay-steps=1000. "
        "`learning_rate=` is the initial rate (highest for one-cycle). odt docs reference "
        "lists the options of each schedule.",
        stored=CHECKPOINT,
    )
    batch_size: int = option(
        32,
        Whole(1, MAX_SAMPLES),
        DATA,
        "Batch size: samples per step.",
        stored=CIRCLE_PLUS,
        federated=True,
        common=True,
        clients=8,
    )


# Options that become fields of another form: the warm-up is part of the schedule, and patterns
# select weights.
RESOLVED_OPTIONS = table(
    warmup=Option(
        None,
        Whole(0),
        OPTIMIZER,
        "Learning rate warm-up: number of steps in which the rate grows linearly before "
        "`schedule=` starts.",
        stored=CHECKPOINT,
        metavar="STEPS",
    ),
    learning_rate_of=Option(
        (),
        ByPattern(
            Number("factors above 0", open_least=True, remedy="Freeze with `freeze=`."), "factor"
        ),
        OPTIMIZER,
        "Multiply the learning rate of weights whose name or operator matches GLOB. Repeatable.",
        stored=CHECKPOINT,
    ),
    dropout=Option(
        (),
        ByPattern(
            Number("a number from 0 to less than 1", most=1, open_most=True),
            "rate",
            has_default=True,
        ),
        OPTIMIZER,
        "Dropout: during training, set inputs of trained FULLY_CONNECTED layers to 0 with "
        "probability RATE. GLOB selects layers by the names of their weights; without GLOB, the "
        "last one. Repeatable.",
        stored=CHECKPOINT,
    ),
    sparse=Option(
        (),
        ByPattern(Number("fractions above 0 and at most 1", most=1, open_least=True), "fraction"),
        SELECTION,
        "Sparse training: train only this fraction of the output channels, those with the largest "
        "norm, in filters whose name or operator matches GLOB. Repeatable.",
        stored=CHECKPOINT,
    ),
)

# What trains: arguments of `odt.Trainable`. Together they become positions of operators, which a
# circle+ stores, and weights.
SELECTION_OPTIONS = table(
    last=Option(
        None,
        Whole(-1),
        SELECTION,
        "Train the last N operators of the model, not counting conversions and operators without "
        "gradient at its end; -1 for all, 0 for none.",
        stored=CIRCLE_PLUS,
        metavar="N",
        federated=True,
        common=True,
        spellings=("num-of-trainable-ops",),
    ),
    operators=Option(
        None,
        Form("text", "positions such as 0-3,7"),
        SELECTION,
        "Train these operators, by position in the file: 0-3,7.",
        stored=CIRCLE_PLUS,
        metavar="LIST",
        spellings=("trainable-ops",),
    ),
    patterns=Option(
        (),
        Form("text", "pattern of names or operators", several="list"),
        SELECTION,
        "Train only weights whose name or operator matches GLOB. Repeatable.",
        stored=CHECKPOINT,
        metavar="GLOB",
        federated=True,
        spellings=("trainable",),
    ),
    freeze=Option(
        (),
        Form("text", "pattern of names or operators", several="list"),
        SELECTION,
        "Freeze weights whose name or operator matches GLOB. Repeatable.",
        stored=CHECKPOINT,
        metavar="GLOB",
        federated=True,
    ),
    bias_only=Option(
        False,
        Switch(),
        SELECTION,
        "Train biases only.",
        stored=CHECKPOINT,
        federated=True,
    ),
    freeze_norm=Option(
        False,
        Switch(),
        SELECTION,
        "Freeze batch normalization that the file has as MUL and ADD with constants.",
        stored=CHECKPOINT,
        federated=True,
    ),
)

# Hyper-parameters of all optimizers, whose defaults are in the rows of kernels/optimizers.
HYPER_OPTIONS = table(
    **{
        name: Option(
            None,
            Switch() if switch else Number("a number, 0 or more", most=most, open_most=below),
            OPTIMIZER,
            text,
            stored=CIRCLE_PLUS,
            federated=True,
        )
        for name, (text, most, below, switch) in HYPER_PARAMETERS.items()
    }
)

STEP_OPTIONS = rows_of(StepOptions)
CHECKPOINT_OPTIONS = rows_of(CheckpointOptions)
TRAINING_OPTIONS = rows_of(TrainingOptions)
TEACHER_OPTIONS = {name: TRAINING_OPTIONS[name] for name in ("temperature", "teacher_weight")}
# Options of `odt.Trainer`, and of the teacher that it takes.
RECIPE_OPTIONS = {**TRAINING_OPTIONS, **RESOLVED_OPTIONS}
