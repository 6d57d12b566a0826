"""Options that only `odt train` has (epochs, validation, exports), and the examples of its help."""

import click

from odt.cli.options.find_rate import find_rate_options
from odt.cli.options.rows import keyword_options, recipe_options
from odt.cli.options.sections import ONE, combine, option
from odt.cli.options.shared import gradient_options, regularization_options
from odt.cli.options.trained_model import trained_model_options
from odt.cli.options.types import OutputPath
from odt.core.options.fit_options import FIT_OPTIONS
from odt.core.options.option import EXPORT, OPTIMIZER, VALIDATION
from odt.core.options.session_options import SESSION_OPTIONS

fit_options = keyword_options(FIT_OPTIONS)
validation_options = combine(
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
)

best_options = keyword_options(SESSION_OPTIONS, "monitor", "keep_best")

quantize_aware_option = option(
    OPTIMIZER,
    "--quantize-aware",
    is_flag=True,
    help="Quantization-aware training of a float MODEL: quantize it as odt quantize does, with "
    "ranges from the training inputs, train it with fake quantization, and export int8. "
    "--quant-ranges is follow unless given.",
)

update_options = combine(
    recipe_options("learning_rate_of", "schedule", "warmup"),
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
