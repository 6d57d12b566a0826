"""Detectors that classify the cells of a grid: FOMO.

The output (1, H, W, C) holds the probabilities of each cell, with the background as class 0. The
cell with the center of a box has its class. Source: Edge Impulse's FOMO, whose training block
weights cells with an object by 100.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from odt.core.data.protocol import Scales
from odt.core.lowering.final_activation import probability_operator
from odt.core.model.model import Model
from odt.kernels.rows.opdef import Array
from odt.tasks.detector import real_boxes, slots_text

OBJECT_WEIGHT = 100.0  # of a cell with an object
SCORE = 0.5  # least probability of a cell that is a detection
STRIDE = 4  # least pixels of a cell: models of finer grids are for segmentation


class CellDetector:
    """A detector with a grid of cells.

    Args:
        tensor: the output.
        shape: its rows, columns and classes.
        activation: operator that computes it: SOFTMAX or LOGISTIC.
        class_slots: class of the data → slot; empty for one class for each slot.
    """

    metric = "f1"
    scales = Scales.POSITIONS
    trains_heads = False

    def __init__(
        self,
        tensor: int,
        shape: tuple[int, int, int],
        activation: str,
        class_slots: Sequence[int] = (),
    ) -> None:
        self.tensors = (tensor,)
        self.shape = shape
        self.activation = activation
        self.slots = shape[2] - 1
        self._columns = np.array([1 + s for s in class_slots or range(self.slots)], np.intp)

    @property
    def losses(self) -> Mapping[int, str]:
        loss = "categorical" if self.activation == "SOFTMAX" else "binary"
        return {self.tensors[0]: f"{loss}_crossentropy"}

    def prepared(self, class_slots: Sequence[int], positives: float) -> "CellDetector":
        return CellDetector(self.tensors[0], self.shape, self.activation, class_slots)

    def positives(self, boxes: Array) -> int:
        y, x = self._cells(real_boxes(boxes))
        return len(np.unique(y * self.shape[1] + x))

    def encode(self, boxes: Array, targets: Sequence[Array]) -> None:
        classes = targets[0].reshape(len(boxes), *self.shape, copy=False)
        weights = targets[1].reshape(len(boxes), *self.shape[:2], copy=False)
        classes[...] = 0
        classes[..., 0] = 1
        weights[...] = 1
        for k, rows in enumerate(map(real_boxes, boxes)):
            y, x = self._cells(rows)
            classes[k, y, x, 0] = 0
            classes[k, y, x, self._columns[rows[:, 0].astype(np.intp)]] = 1
            weights[k, y, x] = OBJECT_WEIGHT

    def decode(self, outputs: Sequence[Array]) -> list[Array]:
        scores = outputs[0].reshape(len(outputs[0]), *self.shape, copy=False)
        return [self._detections(photo) for photo in scores]

    def _cells(self, boxes: Array) -> tuple[Array, Array]:
        """Returns the row and column of the cells with the centers of boxes (M, 5)."""
        centers = (boxes[:, 1:3] + boxes[:, 3:5]) / 2
        size = np.array(self.shape[:2])
        cells = np.clip((centers * size).astype(np.intp), 0, size - 1)
        return cells[:, 0], cells[:, 1]

    def _detections(self, scores: Array) -> Array:
        """Returns the detections of a photo: cells of a class that touch are one box."""
        height, width = self.shape[:2]
        best = scores.argmax(-1)
        rows = []
        for number, column in enumerate(self._columns):
            values = scores[..., column]
            for cells in _groups((best == column) & (values >= SCORE)):
                y, x = cells.T
                box = y.min() / height, x.min() / width, (y.max() + 1) / height
                rows.append((number, values[y, x].max(), *box, (x.max() + 1) / width))
        rows.sort(key=lambda row: -row[1])
        return np.array(rows, np.float32).reshape(-1, 6)

    def __str__(self) -> str:
        height, width = self.shape[:2]
        return f"{height} × {width} cells, {slots_text(self.slots)}"


def _groups(mask: Array) -> list[Array]:
    """Returns the cells (K, 2) of each group of true cells that touch, also at corners."""
    rest = set(map(tuple, np.argwhere(mask).tolist()))
    groups = []
    while rest:
        group = [rest.pop()]
        for y, x in group:  # grows while it is read
            near = rest & {(y + i, x + j) for i in (-1, 0, 1) for j in (-1, 0, 1)}
            rest -= near
            group += near
        groups.append(np.array(group))
    return groups


def recognize(model: Model) -> CellDetector | None:
    """Returns the detector of a model with one image and one grid of probabilities, else None."""
    graph = model.graph
    if len(graph.inputs) != 1 or len(graph.outputs) != 1:
        return None
    tensor = graph.outputs[0]
    image, output = (graph.tensors[i].spec.shape for i in (graph.inputs[0], tensor))
    activation = probability_operator(graph, tensor)
    if len(image) != 4 or len(output) != 4 or not activation:
        return None
    height, width, classes = output[1:]
    if min(height, width, classes) < 2:
        return None
    if image[1] < STRIDE * height or image[2] < STRIDE * width:
        return None
    return CellDetector(tensor, (height, width, classes), activation)
