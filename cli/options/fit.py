"""Options that only `odt train` has, and the examples of its help."""

import click

from odt.cli.options.find_rate import find_rate_options
from odt.cli.options.rows import keyword_options, recipe_options
from odt.cli.options.sections import combine, option
from odt.cli.options.shared import gradient_options, regularization_options
from odt.cli.options.weights import WEIGHTS
from odt.core.options.fit_options import FIT_OPTIONS
from odt.core.options.option import OPTIMIZER
from odt.core.options.session_options import SESSION_OPTIONS

fit_options = keyword_options(FIT_OPTIONS)
best_options = keyword_options(SESSION_OPTIONS, "monitor", "keep_best")

quantize_aware_option = option(
    OPTIMIZER,
    "--quantize-aware",
    is_flag=True,
    help="Quantization-aware training of a float MODEL: quantize it as odt quantize does, with "
    "ranges from the training inputs, train it with fake quantization, and export int8. "
    "--quant-ranges is follow unless given.",
)

quantize_weights_option = option(
    OPTIMIZER,
    "--quantize-weights",
    type=click.Choice(tuple(WEIGHTS)),
    help="Quantization-aware training of the weights of a float MODEL: store them as odt quantize "
    "--weights does, and train and export them in these types.",
)

update_options = combine(
    recipe_options("learning_rate_of", "schedule", "warmup"),
    gradient_options,
    regularization_options,
)
rate_options = combine(find_rate_options, update_options)

EXAMPLES = (
    "odt train model.tflite --load-input x.npy --load-expected y.npy --epochs 5 \\\n"
    "  --metric accuracy --validation-split 0.1 --export-tflite trained.tflite",
    "odt train model.circle --load-input x.npy --load-expected y.npy --num-of-trainable-ops 2 \\\n"
    "  --checkpoint state.odt --export-checkpoint state.odt --export-circle trained.circle",
)
