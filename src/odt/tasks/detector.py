"""What a task makes of a model that finds objects: a detector."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from odt.core.data.protocol import Scales
from odt.kernels.rows.opdef import Array
from odt.text import plural


class Detector(Protocol):
    """A model that finds objects, and how boxes train it."""

    @property
    def tensors(self) -> tuple[int, ...]:
        """Tensors that train, in the order of targets, position weights and outputs."""

    @property
    def losses(self) -> Mapping[int, str]:
        """Tensor → loss with its hyper-parameters, as text."""

    @property
    def slots(self) -> int:
        """Number of classes that the model tells apart."""

    @property
    def trains_heads(self) -> bool:
        """Whether by default only the last layers train."""

    @property
    def scales(self) -> Scales:
        """What has weights: the positions of its tensors, or each of their values."""

    @property
    def metric(self) -> str:
        """Name of the metric of its detections."""

    def prepared(self, class_slots: Sequence[int], positives: float) -> "Detector":
        """Returns the detector for some data.

        Args:
            class_slots: class of the data → slot of the model.
            positives: mean number of positions with a box in a photo.
        """

    def positives(self, boxes: Array) -> int:
        """Returns the number of positions with a box in a photo with boxes (M, 5)."""

    def encode(self, boxes: Array, targets: Sequence[Array]) -> None:
        """Writes targets and weights.

        Args:
            boxes: boxes (N, M, 5) of N photos: class, y1, x1, y2, x2 as fractions of the photo;
                rows of the class −1 are none.
            targets: targets (N, …) of each tensor, then the weights of each: (N, positions), or
                (N, …) of all values.
        """

    def decode(self, outputs: Sequence[Array]) -> list[Array]:
        """Returns the detections (K, 6) of each photo: class, score, y1, x1, y2, x2.

        Args:
            outputs: values (N, …) of each tensor.
        """

    def __str__(self) -> str:
        """Describes it, such as "1,917 anchors, 90 class slots, 10 detections"."""


def real_boxes(boxes: Array) -> Array:
    """Returns the rows of boxes (M, 5) that are boxes."""
    rows: Array = boxes[boxes[:, 0] >= 0]
    return rows


def slots_text(slots: int) -> str:
    """Returns a number of class slots as text."""
    return f"{slots:,} {plural(slots, 'class slot')}"
