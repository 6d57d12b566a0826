"""Data sets whose targets are boxes, encoded for a detector when they are read."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from odt.core.data.array_columns import array_columns
from odt.core.data.column import Column
from odt.core.data.columns import open_columns
from odt.core.data.dataset import DataSet
from odt.core.data.protocol import SampleOrder, Weights
from odt.core.data.sidecar import read_sidecar
from odt.core.storage.reading import listed, reading
from odt.dataclass import dataclass
from odt.errors import DataError
from odt.kernels.rows.lossdef import Check, check_finite
from odt.kernels.rows.opdef import Array, TensorSpec
from odt.tasks.detector import Detector

VALUES = 5  # of a box: class, y1, x1, y2, x2
COUNTED = 256  # samples whose boxes are matched to find the mean number of positions with a box


@dataclass(frozen=True, slots=True)
class Boxes:
    """Boxes of samples.

    Attributes:
        column: boxes (N, M, 5).
        names: names of the classes by number; empty if they are not known.
    """

    column: Column
    names: tuple[str, ...]


class BoxData(DataSet):
    """Inputs and boxes of the same samples, for a detector.

    Its one column of targets holds the boxes. `read` gives the targets of the detector's outputs
    and the weights of their positions or values.

    Args:
        inputs: one column for each model input.
        boxes: boxes (N, M, 5).
        detector: encodes the boxes.
        order: for each output with a loss, its place in the detector's tensors.
        classes: number of classes that boxes may have.
        weights: weight of each sample; None for 1.
    """

    def __init__(
        self,
        inputs: Sequence[Column],
        boxes: Column,
        detector: Detector,
        order: Sequence[int],
        classes: int,
        weights: Array | None = None,
    ) -> None:
        super().__init__(inputs, (boxes,), (box_check(classes),), weights)
        self.weights = Weights(weights, detector.scales)
        self.detector, self._order, self._classes = detector, order, classes

    def read(self, samples: SampleOrder, inputs: Sequence[Array], targets: Sequence[Array]) -> None:
        """Reads samples; encodes their boxes unless targets are empty."""
        if not targets:
            super().read(samples, inputs, ())
            return
        boxes = self.boxes_like(len(samples))
        super().read(samples, inputs, (boxes,))
        self.encode(boxes, targets)

    def read_boxes(self, samples: SampleOrder, inputs: Sequence[Array], boxes: Array) -> None:
        """Reads samples with their boxes (N, M, 5)."""
        super().read(samples, inputs, (boxes,))

    def boxes_like(self, samples: int) -> Array:
        """Returns an array for the boxes (N, M, 5) of some samples."""
        return np.empty((samples, *self.targets[0].spec.shape), np.float32)

    def boxes(self, sample: int) -> Array:
        """Returns the boxes (M, 5) of a sample."""
        boxes = self.boxes_like(1)
        self.targets[0].read([sample], boxes)
        rows: Array = boxes[0]
        return rows

    def encode(self, boxes: Array, targets: Sequence[Array]) -> None:
        """Writes targets and weights of boxes (N, M, 5) in the order of the losses."""
        count = len(self._order)
        by_tensor: list[Array] = [boxes] * (2 * count)
        for k, place in enumerate(self._order):
            by_tensor[place], by_tensor[count + place] = targets[k], targets[count + k]
        self.detector.encode(boxes, by_tensor)

    def labels(self, losses: Sequence[tuple[str, TensorSpec]]) -> Array | None:
        """Returns None: a sample may have boxes of several classes."""

    def only_class(self, losses: Sequence[tuple[str, TensorSpec]]) -> int | None:
        """Returns None: a sample may have boxes of several classes."""

    def without_inputs(self) -> "BoxData":
        """Returns the data set with its boxes only."""
        return self._with((), self.sample_weights)

    def with_weights(
        self, weights: Array | None, position_weights: Sequence[Column] = ()
    ) -> "BoxData":
        """Returns the data set with a weight for each sample.

        Raises:
            DataError: for weights of positions, which the detector gives.
        """
        if position_weights:
            raise DataError("sample_weight: must be one weight for each sample (N,) of boxes.")
        return self._with(self.inputs, weights)

    def most_boxes(self) -> int:
        """Returns the largest number of boxes of a sample."""
        return max(
            int((rows.reshape(len(rows), -1, VALUES)[..., 0] >= 0).sum(axis=1).max())
            for _, rows in self.targets[0].blocks()
        )

    def _with(self, inputs: Sequence[Column], weights: Array | None) -> "BoxData":
        boxes, detector = self.targets[0], self.detector
        return BoxData(inputs, boxes, detector, self._order, self._classes, weights)


def box_check(classes: int) -> Check:
    """Returns the check of boxes: whole classes below a number, corners in order within 0 … 1."""

    def check(rows: Array) -> tuple[int, str] | None:
        problem = check_finite(rows)
        if problem is not None:
            return problem
        boxes = rows.reshape(len(rows), -1, VALUES)
        numbers = boxes[..., 0]
        inside = ((boxes[..., 1:] >= 0) & (boxes[..., 1:] <= 1)).all(-1)
        rules = (
            (
                (numbers >= classes) | (numbers < -1) | (numbers != np.floor(numbers)),
                f"classes must be whole numbers below {classes}, the number of classes, or -1",
            ),
            (
                (numbers >= 0) & (~inside | (boxes[..., 1:3] >= boxes[..., 3:]).any(-1)),
                "boxes must be class, y1, x1, y2, x2 with y1 < y2 and x1 < x2 from 0 to 1",
            ),
        )
        for wrong, rule in rules:
            if wrong.any():
                row, box = np.argwhere(wrong)[0].tolist()
                values = ", ".join(f"{v:g}" for v in boxes[row, box])
                return row, f"{rule}, but box {box} is {values}"
        return None

    return check


def open_boxes(y: Any) -> Boxes:
    """Opens boxes.

    Args:
        y: boxes (N, M, 5), or the path of a data file with its record.

    Raises:
        DataError: if there are other values.
    """
    if not isinstance(y, str | os.PathLike):
        with reading("y", "must be an array of boxes (N, M, 5)"):
            rows = np.asarray(y)
        spec = _checked("y", rows.shape[1:])
        return Boxes(array_columns([rows], [spec], "y")[0], ())
    path = os.fspath(y)
    names, shape = boxes_beside(path)
    if shape is None:
        raise DataError(
            f"{path}: must hold boxes and have the record that odt gen-datafile writes, "
            f"but got no {path}.json of boxes."
        )
    (column,) = open_columns(path, [_checked(path, shape)], "boxes")
    return Boxes(column, names)


def boxes_beside(path: str) -> tuple[tuple[str, ...], tuple[int, ...] | None]:
    """Returns class names and shape (M, 5) of boxes by the record beside their file.

    The shape is None if there is no record, or it is of other targets.
    """
    sidecar = read_sidecar(path)
    boxes = sidecar.recipe.get("boxes") if sidecar else None
    if sidecar is None or not boxes:
        return (), None
    return tuple(boxes.get("classes", ())), sidecar.tensors[0].shape


def _checked(where: str, shape: tuple[int, ...]) -> TensorSpec:
    if len(shape) != 2 or shape[1] != VALUES:
        raise DataError(f"{where}: must hold boxes (N, M, 5), but a sample has the shape {shape}.")
    return TensorSpec(shape, np.dtype(np.float32))


def class_slots(where: str, names: Sequence[str], labels: Sequence[str], slots: int) -> list[int]:
    """Returns the slot of each class: that of its name in the model's labels, or the first slots.

    Args:
        where: name of the data in messages.
        names: names of the classes; empty for a class for each slot.
        labels: labels of the model, by slot.
        slots: number of slots of the model.

    Raises:
        DataError: if there are more classes than slots.
    """
    if len(names) > slots:
        raise DataError(
            f"{where}: must have at most {slots} classes, those of the model, but got "
            f"{len(names)}: {listed(names)}. Replace the head for more: odt replace-head."
        )
    if names and set(names) <= set(labels[:slots]):
        return [labels.index(name) for name in names]
    return list(range(len(names) or slots))


def mean_positives(detector: Detector, boxes: Column) -> float:
    """Returns the mean number of positions with a box, of at most 256 samples evenly spaced."""
    numbers = np.linspace(0, boxes.length - 1, min(boxes.length, COUNTED), dtype=np.int64)
    rows = np.empty((len(numbers), *boxes.spec.shape), np.float32)
    boxes.read(numbers, rows)
    return float(np.mean([detector.positives(row) for row in rows]))
