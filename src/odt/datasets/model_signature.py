"""Signature of a model: shapes, channels and dtypes of its inputs, number of classes."""

from collections.abc import Sequence

import numpy as np

from odt.core.formats.flatbuffer.tflite_metadata import read_record
from odt.core.formats.reader import read_model
from odt.core.model.record import Record, is_channels_first
from odt.dataclass import dataclass
from odt.datasets.source import Kind
from odt.errors import DataError
from odt.kernels.geometry.quantize import Quantization, dequantize, limits
from odt.kernels.rows.opdef import TensorSpec

MAX_SCALED = 16.0  # largest number of an input whose images are scaled to 0..1 or -1..1


@dataclass(frozen=True, slots=True)
class ModelSignature:
    """Inputs and outputs of a model, for one sample.

    Attributes:
        path: path of the model.
        inputs, outputs: specs without the batch axis.
        record: preprocessing record of the model, if it has one.
        quantizations: quantization of each input of integers; None for other inputs.
    """

    path: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    record: Record | None = None
    quantizations: tuple[Quantization | None, ...] = ()

    def is_quantized(self) -> bool:
        """Whether the first input is quantized, so that data hold real numbers."""
        return bool(self.quantizations) and self.quantizations[0] is not None

    def picture_scale(self) -> str:
        """Returns the scale of images that a quantized input has room for."""
        assert self.quantizations[0] is not None, "the input is not quantized"
        ends = np.array(limits(self.inputs[0].dtype))
        least, most = dequantize(ends, self.quantizations[0])
        if most > MAX_SCALED:
            return "none"
        return "-1..1" if least < -most / 2 else "0..1"

    def channels_first(self) -> bool:
        """Whether the first input is an image (C, H, W), as in models from PyTorch."""
        return is_channels_first(self.inputs[0].shape)

    def picture_size(self) -> tuple[int, int] | None:
        """Returns height and width of the input, if it is an image (H, W), (H, W, C), (C, H, W)."""
        shape = self.inputs[0].shape
        if self.channels_first():
            return shape[1], shape[2]
        if (len(shape) == 3 and shape[2] in (1, 3)) or len(shape) == 2:
            return shape[0], shape[1]
        return None

    def color(self) -> str:
        """Returns the color conversion that images need."""
        shape = self.inputs[0].shape
        channels = shape[0 if self.channels_first() else 2] if len(shape) == 3 else 1
        return "rgb" if channels == 3 else "grayscale"

    def check(
        self,
        name: str,
        kind: Kind,
        inputs: Sequence[TensorSpec],
        targets: Sequence[TensorSpec],
        classes: int,
    ) -> None:
        """Raises DataError if the samples of a split do not match the model."""
        # Their numbers are compared afterwards.
        for k, (actual, expected) in enumerate(zip(inputs, self.inputs, strict=False)):
            # Integers become floats when they are read.
            is_converted = expected.dtype.kind == "f" and actual.dtype.kind in "iu"
            is_quantized = k < len(self.quantizations) and self.quantizations[k] is not None
            fits = actual.dtype == expected.dtype or is_converted or is_quantized
            if actual.shape != expected.shape or not fits:
                raise DataError(
                    f"{self.path}: input {k} must be {expected}, but {name} has {actual} of {kind} "
                    "data."
                )
        if len(inputs) != len(self.inputs):
            raise DataError(
                f"{self.path}: must have {len(self.inputs)} inputs, but {name} has {len(inputs)}."
            )
        if len(targets) > len(self.outputs):
            raise DataError(
                f"{self.path}: must have an output for each target, but has {len(self.outputs)} "
                f"for the {len(targets)} of {name}."
            )
        widths = [_width(spec) for spec in self.outputs]
        if len(targets) > 1:
            for k, (target, width) in enumerate(zip(targets, widths, strict=False)):
                if _width(target) != width:
                    raise DataError(
                        f"{self.path}: output {k} has {width} values, but target {k} of {name} has "
                        f"{_width(target)}."
                    )
            return
        if not targets:
            return
        width, count = widths[0], classes or _width(targets[0])
        if count != width:
            noun = "classes" if classes else "values"
            hint = ", or merge classes with `label_map=`" if classes else ""
            if 0 < classes < width:
                hint += ". If they are some of its classes, list all: `classes=NAME,NAME,…`"
            raise DataError(
                f"{self.path}: its output has {width} values, but {name} has {count} "
                f"{noun}. Give the model an output of {count}: "
                f"odt replace-head {self.path} `classes={count}`{hint}."
            )


def _width(spec: TensorSpec) -> int:
    """Returns the length of the last axis of a sample."""
    return spec.shape[-1] if spec.shape else 1


def read_signature(path: str) -> ModelSignature:
    """Reads the signature of a model file.

    Raises:
        ModelError: if the file cannot be read.
    """
    model = read_model(path)
    graph = model.graph
    specs = [
        tuple(
            TensorSpec(graph.tensors[i].spec.shape[1:], graph.tensors[i].spec.dtype)
            for i in indices
        )
        for indices in (graph.inputs, graph.outputs)
    ]
    quantizations = (model.quantization.get(i) for i in graph.inputs)
    return ModelSignature(path, specs[0], specs[1], read_record(model), tuple(quantizations))
