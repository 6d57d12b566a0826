"""A loss on one output, as a plan computes it."""

from collections.abc import Mapping
from dataclasses import field

from odt.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss on one output.

    Attributes:
        name: name of the loss function.
        tensor: tensor that the loss reads: the output, or the input of a final SOFTMAX or LOGISTIC.
        options: options from which the row computes its attributes.
        weight: factor of the loss in the sum of losses.
        output: position of the output among the model's outputs.
        weighted: whether each sample has its own scale.
    """

    name: str
    tensor: int
    options: Mapping[str, object] = field(hash=False)  # a mapping has no hash; equality compares it
    weight: float = 1.0
    output: int = 0
    weighted: bool = False
