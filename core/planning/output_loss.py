"""A loss on one output, as a plan computes it."""

import math
from collections.abc import Mapping
from dataclasses import field

from odt.core.data.protocol import Scales
from odt.dataclass import dataclass
from odt.kernels.rows.opdef import TensorSpec

LEAST_SAVED = 2**24  # bytes for which a loss is joined with the layer before it: chunked_loss.py


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss on one output.

    Attributes:
        name: name of the loss function.
        tensor: tensor that the loss reads: the output, or the input of a final SOFTMAX or LOGISTIC.
        options: options from which the row computes its attributes.
        weight: factor of the loss in the sum of losses.
        output: position of the output among the model's outputs.
        scales: what has a scale of its own.
    """

    name: str
    tensor: int
    options: Mapping[str, object] = field(hash=False)  # a mapping has no hash; equality compares it
    weight: float = 1.0
    output: int = 0
    scales: Scales = Scales.BATCH

    def may_be_chunked(self, x: TensorSpec) -> bool:
        """Whether joining the loss with the layer that computes x may save memory.

        Args:
            x: spec of the tensor that the loss reads.
        """
        return self.name == "sparse_categorical_crossentropy" and 2 * x.nbytes >= LEAST_SAVED

    def scale_shape(self, x: TensorSpec) -> tuple[int, ...]:
        """Returns the shape of the scales.

        Args:
            x: spec of the tensor that the loss reads.
        """
        if self.scales is Scales.BATCH:
            return (1,)
        if self.scales is Scales.SAMPLES:
            return x.shape[:1]
        return (math.prod(positions(x)) if self.scales is Scales.POSITIONS else x.size,)


def positions(x: TensorSpec) -> tuple[int, ...]:
    """Returns the shape of the positions of a loss: all axes of x but the last."""
    return x.shape[:-1] or x.shape
