"""Options that only `odt train` has (epochs, validation, exports), and the examples of its help."""

import click

from odt.cli.options.find_rate import find_rate_options
from odt.cli.options.sections import ONE, combine, option
from odt.cli.options.shared import gradient_options, regularization_options, sample_weight_option
from odt.cli.options.teacher import teacher_options
from odt.cli.options.trained_model import trained_model_options
from odt.cli.options.types import ClassWeights, Duration, GlobValue, OutputPath, ScheduleText
from odt.core.options.option import DATA, EXPORT, LOSS, OPTIMIZER, VALIDATION

fit_options = combine(
    option(
        DATA,
        "--epochs",
        common=True,
        type=click.IntRange(0),
        default=5,
        show_default=True,
        help="Number of epochs: passes over the training data.",
    ),
    option(
        DATA,
        "--max-steps",
        type=click.IntRange(1),
        metavar="N",
        help="Stop after step N, counted from the first epoch.",
    ),
    option(
        DATA,
        "--max-time",
        type=Duration(),
        metavar="TIME",
        help="Stop after this time, when the current step is complete: seconds, or a time with "
        "units such "
        "as 90s, 30m, 1h30m.",
    ),
    option(
        DATA,
        "--shuffle/--no-shuffle",
        default=None,
        help="Shuffle the training samples in each epoch. On by default; off for command "
        "lines in ONE's spelling.",
    ),
    option(
        DATA,
        "--seed",
        common=True,
        type=click.IntRange(0),
        show_default="0",
        help="Random seed of --shuffle and of the validation split.",
    ),
    option(
        DATA,
        "--drop-last/--no-drop-last",
        default=None,
        help="Drop the last batch if it is smaller than --batch-size; by default it is used.",
    ),
    option(
        DATA,
        "--augment",
        common=True,
        multiple=True,
        callback=lambda ctx, param, value: value or None,
        metavar="NAME[:VALUE],…",
        help="Data augmentation: random changes of the training samples, different in each epoch, "
        "such as flip,shift:0.1,rotate:15. Repeatable. docs/augmentation.md lists all.",
    ),
    option(
        DATA,
        "--new-data",
        is_flag=True,
        help="Train on other data than --checkpoint did: start at epoch 1 with the weights and "
        "optimizer state of --checkpoint.",
    ),
    option(
        OPTIMIZER,
        "--quantize-aware",
        is_flag=True,
        help="Quantization-aware training of a float MODEL: quantize it as odt quantize does, with "
        "ranges from the training inputs, train it with fake quantization, and export int8. "
        "--quant-ranges is follow unless given.",
    ),
    sample_weight_option,
    teacher_options,
    option(
        LOSS,
        "--class-weight",
        type=ClassWeights(),
        help="Class weights: factors of the losses of training samples by class, 1 if left out. "
        "balanced gives every class the same total weight.",
    ),
    option(
        VALIDATION,
        "--validation-split",
        common=True,
        type=float,
        default=0.0,
        show_default=True,
        help="Fraction of the samples used for validation after each epoch.",
    ),
    option(
        VALIDATION,
        "--validation-input",
        type=click.Path(),
        metavar="FILE",
        help="Model inputs of the validation samples, in the formats of --load-input.",
    ),
    option(
        VALIDATION,
        "--validation-expected",
        type=click.Path(),
        metavar="FILE",
        help="Expected outputs (targets) of the validation samples.",
    ),
    option(
        VALIDATION,
        "--stratify/--no-stratify",
        default=None,
        help="Stratified split: draw the validation samples at random from each class, by --seed. "
        "Without it, or if the targets are not classes, the last samples are used. On by default.",
    ),
    option(
        VALIDATION,
        "--patience",
        common=True,
        type=click.IntRange(1),
        metavar="N",
        help="Early stopping: stop after N epochs without an improvement of --monitor.",
    ),
    option(
        VALIDATION,
        "--monitor",
        default="val_loss",
        show_default=True,
        metavar="NAME",
        help="Value that --keep-best, --patience and --schedule plateau compare: loss, val_loss, "
        "or a --metric, with the prefix val_ for its validation value.",
    ),
    option(
        VALIDATION,
        "--keep-best",
        common=True,
        is_flag=True,
        help="Export the weights of the epoch with the best value of --monitor instead of the "
        "last epoch's.",
    ),
)

update_options = combine(
    option(
        OPTIMIZER,
        "--learning-rate-of",
        multiple=True,
        type=GlobValue("factor"),
        help="Multiply the learning rate of weights whose name or operator matches GLOB. "
        "Repeatable.",
    ),
    option(
        OPTIMIZER,
        "--schedule",
        type=ScheduleText(),
        help="Learning rate schedule, such as cosine or step:decay-rate=0.5,decay-steps=1000. "
        "--learning-rate is the initial rate (highest for one-cycle). docs/reference.md lists the "
        "options of each schedule.",
    ),
    option(
        OPTIMIZER,
        "--warmup",
        type=click.IntRange(0),
        metavar="STEPS",
        help="Learning rate warm-up: number of steps in which the rate grows linearly before "
        "--schedule starts.",
    ),
    gradient_options,
    regularization_options,
)
rate_options = combine(find_rate_options, update_options)

export_options = combine(
    trained_model_options,
    option(
        EXPORT,
        "--export-circleplus",
        type=OutputPath(),
        metavar="FILE",
        help="Export the trained model as circle+, with the training info used.",
    ),
    option(
        EXPORT,
        "--export-weights",
        type=click.Choice(["as-stored", "float"]),
        show_default="as-stored",
        help="Type of exported weights that the model file stores as float16 or int8: the "
        "stored type, or float32.",
    ),
    option(
        EXPORT,
        "--preprocessing/--no-preprocessing",
        default=True,
        show_default=True,
        help="Store the preprocessing record of the data (its JSON file) in the metadata of "
        "exported models, for odt predict --source.",
    ),
    option(
        ONE,
        "--mem-poll",
        is_flag=True,
        help="Report the memory of the process in each phase.",
    ),
)

EXAMPLES = (
    "odt train model.tflite --load-input x.npy --load-expected y.npy --epochs 5 \\\n"
    "  --metric accuracy --validation-split 0.1 --export-tflite trained.tflite",
    "odt train model.circle --load-input x.npy --load-expected y.npy --num-of-trainable-ops 2 \\\n"
    "  --checkpoint state.odt --export-checkpoint state.odt --export-circle trained.circle",
)
