"""Options of commands that train a model and export it."""

from odt.cli.options.adapters import adapter_options
from odt.cli.options.sections import combine, option
from odt.cli.options.types import OutputPath
from odt.core.options.option import EXPORT

trained_model_options = combine(
    adapter_options,
    option(
        EXPORT,
        "--export-circle",
        common=True,
        type=OutputPath(),
        metavar="FILE",
        help="Export the trained model as Circle.",
    ),
    option(
        EXPORT,
        "--export-tflite",
        common=True,
        type=OutputPath(),
        metavar="FILE",
        help="Export the trained model as TFLite.",
    ),
    option(
        EXPORT,
        "--export-onnx",
        common=True,
        type=OutputPath(),
        metavar="FILE",
        help="Export the trained ONNX model: the file with new weights in place.",
    ),
)
