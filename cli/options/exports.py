"""Options of the files of a trained model."""

import click

from odt.cli.options.rows import declare, declared_options
from odt.cli.options.types import OutputPath
from odt.core.options.option import EXPORT
from odt.dataclass import dataclass

ADAPTERS = "adapters"


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """Files of the trained model, and what they hold."""

    export_adapters: str | None = declare(
        EXPORT,
        "--export-adapters",
        type=OutputPath(),
        metavar="FILE",
        help="Export only the trained low-rank adapters, as .npz, as PEFT's "
        "adapter_model.safetensors or as .gguf. Other exports merge them into the weights.",
    )
    export_circle: str | None = declare(
        EXPORT,
        "--export-circle",
        common=True,
        type=OutputPath(),
        metavar="FILE",
        help="Export the trained model as Circle.",
    )
    export_tflite: str | None = declare(
        EXPORT,
        "--export-tflite",
        common=True,
        type=OutputPath(),
        metavar="FILE",
        help="Export the trained model as TFLite.",
    )
    export_onnx: str | None = declare(
        EXPORT,
        "--export-onnx",
        common=True,
        type=OutputPath(),
        metavar="FILE",
        help="Export the trained ONNX model: the file with new weights in place.",
    )
    export_circleplus: str | None = declare(
        EXPORT,
        "--export-circleplus",
        type=OutputPath(),
        metavar="FILE",
        help="Export the trained model as circle+, with the training info used.",
    )
    export_weights: str | None = declare(
        EXPORT,
        "--export-weights",
        type=click.Choice(["as-stored", "float"]),
        show_default="as-stored",
        help="Type of exported weights that the model stores as float16, integers or sparse: the "
        "stored type, or float32. With float, activations of integers become float32 too.",
    )
    preprocessing: bool = declare(
        EXPORT,
        "--preprocessing/--no-preprocessing",
        default=True,
        show_default=True,
        help="Store the preprocessing record of the data (its JSON file) in the metadata of "
        "exported models, for odt predict --source.",
    )

    @property
    def paths(self) -> dict[str, str]:
        """The files to write by format, the adapters by ADAPTERS."""
        paths = {
            "circle": self.export_circle,
            "tflite": self.export_tflite,
            "circle+": self.export_circleplus,
            "onnx": self.export_onnx,
            ADAPTERS: self.export_adapters,
        }
        return {kind: path for kind, path in paths.items() if path}

    @property
    def float_weights(self) -> bool:
        """Whether weights are exported as float32, however the file stores them."""
        return self.export_weights == "float"


export_options = declared_options(ExportOptions)
weights_option = declared_options(ExportOptions, "export_weights")
# Those of a federation.
federation_exports = declared_options(
    ExportOptions, "export_adapters", "export_circle", "export_tflite", "export_onnx"
)
