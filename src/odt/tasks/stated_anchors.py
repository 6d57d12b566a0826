"""Detectors whose anchors are not in the file: BlazeFace and other detectors of MediaPipe.

Two outputs: codes (1, A, K), of which the first four are a box, x, y, width and height in pixels of
the input, and the others are points; and scores (1, A, C) of each class, usually logits. The center
of a box is its code plus the center of the anchor, and its size is its code: all anchors have the
size of the input (`fixed_anchor_size`).

Anchors (MediaPipe, ssd_anchors_calculator.cc): each layer has a grid of cells of its stride, with
one or two anchors in the center of each cell. Successive layers with one stride share its cells.
All anchors would fit the same boxes. Therefore boxes are matched with the sizes that the calculator
gives to anchors without a fixed size, of the scales of its graph for short-range faces.

MediaPipe's losses are not published. Those of SSD are used, for codes of ten units an input: huber
with δ = 1 of such codes, mean over the four, on anchors with a box; and sigmoid focal loss with
α = 0.75 and γ = 2. Weights are those of values, since the codes of points have none.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from odt.core.data.protocol import Scales
from odt.core.lowering.final_activation import producing_operator
from odt.core.model.model import Model
from odt.dataclass import dataclass
from odt.errors import OptionError
from odt.kernels.rows.opdef import Array
from odt.tasks.anchor_targets import BOX, AnchorTargets
from odt.tasks.anchors import SSD
from odt.tasks.detector import slots_text
from odt.tasks.geometry import best_detections

PREFIX = "mediapipe:"
EXAMPLE = f"{PREFIX}8,16,16,16"
LEAST, MOST = 0.1484375, 0.75  # sizes of the anchors of the first and the last layer
UNITS = 10.0  # of codes in the input, as of SSD
SCORE, OVERLAP = 0.01, 0.3  # of detections: least score, and overlap from which the better stays
MAX_LOGIT = 100.0
DIGITS = 9  # of a stride


@dataclass(frozen=True, slots=True)
class Outputs:
    """The outputs of a detector.

    Attributes:
        codes, scores: tensors.
        anchors, values, classes: number of anchors, values of a code, and classes.
        height, width: of the input in pixels.
        has_logits: whether scores are logits.
    """

    codes: int
    scores: int
    anchors: int
    values: int
    classes: int
    height: int
    width: int
    has_logits: bool


class StatedAnchorDetector:
    """A detector with anchors that the user states.

    Args:
        outputs: its outputs.
        anchors: anchors (A, 4) for matches: center y, center x, height, width.
        class_slots: class of the data → slot; empty for one class for each slot.
        positives: mean number of anchors with a box in a photo.
    """

    metric = "map"
    scales = Scales.VALUES
    trains_heads = True

    def __init__(
        self,
        outputs: Outputs,
        anchors: Array,
        class_slots: Sequence[int] = (),
        positives: float = 1.0,
    ) -> None:
        self.outputs = outputs
        self.anchors = anchors
        self.slots = outputs.classes
        self.tensors = (outputs.codes, outputs.scores)
        slots = class_slots or range(outputs.classes)
        self._targets = AnchorTargets(anchors, slots, positives)
        self._size = np.array((outputs.height, outputs.width), np.float32)
        self._unit = max(outputs.height, outputs.width) / UNITS  # in pixels

    @property
    def losses(self) -> Mapping[int, str]:
        return {
            self.outputs.codes: f"huber:delta={self._unit:g}",
            self.outputs.scores: SSD.class_loss,
        }

    def prepared(self, class_slots: Sequence[int], positives: float) -> "StatedAnchorDetector":
        return StatedAnchorDetector(self.outputs, self.anchors, class_slots, positives)

    def positives(self, boxes: Array) -> int:
        return self._targets.positives(boxes)

    def encode(self, boxes: Array, targets: Sequence[Array]) -> None:
        # The loss is the mean over all values of a code, of which four are the box, in units.
        box_weight = self.outputs.values / BOX / self._unit**2
        self._targets.write(boxes, targets, self._codes, box_weight)

    def decode(self, outputs: Sequence[Array]) -> list[Array]:
        codes, scores = (a.reshape(len(a), self.outputs.anchors, -1, copy=False) for a in outputs)
        if self.outputs.has_logits:
            scores = 1 / (1 + np.exp(-np.clip(scores, -MAX_LOGIT, MAX_LOGIT)))
        with np.errstate(over="ignore", invalid="ignore"):  # codes that are far too large
            return [
                best_detections(self._boxes(c), s[:, self._targets.columns], SCORE, OVERLAP)
                for c, s in zip(codes, scores, strict=True)
            ]

    def _codes(self, boxes: Array, at: Array) -> Array:
        """Returns the codes (N, 4) of boxes (N, 4) at some anchors."""
        sizes = boxes[:, 2:] - boxes[:, :2]
        centers = boxes[:, :2] + sizes / 2 - self.anchors[at, :2]
        codes: Array = np.concatenate(
            [(a * self._size)[:, ::-1] for a in (centers, sizes)], axis=1
        )  # x before y
        return codes

    def _boxes(self, codes: Array) -> Array:
        """Returns the boxes (A, 4) of the codes of all anchors."""
        centers = codes[:, 1::-1] / self._size + self.anchors[:, :2]
        half = codes[:, 3:1:-1] / self._size / 2
        return np.concatenate((centers - half, centers + half), axis=1)

    def __str__(self) -> str:
        return f"{self.outputs.anchors:,} anchors, {slots_text(self.slots)}"


def find_outputs(model: Model) -> Outputs | None:
    """Returns the outputs of a detector without anchors; None for other models."""
    graph = model.graph
    if len(graph.inputs) != 1 or len(graph.outputs) != 2:
        return None
    image = graph.tensors[graph.inputs[0]].spec.shape
    if len(image) != 4 or any(len(graph.tensors[i].spec.shape) != 3 for i in graph.outputs):
        return None
    by_values = sorted(graph.outputs, key=lambda i: -graph.tensors[i].spec.shape[2])
    codes, scores = (graph.tensors[i].spec.shape for i in by_values)
    if codes[:2] != scores[:2]:
        return None
    if codes[1] < 2 or codes[2] < BOX or codes[2] % 2:
        return None
    if codes[2] <= scores[2]:
        return None
    last = producing_operator(graph, by_values[1])
    return Outputs(
        codes=by_values[0],
        scores=by_values[1],
        anchors=codes[1],
        values=codes[2],
        classes=scores[2],
        height=image[1],
        width=image[2],
        has_logits=last is None or last.op != "LOGISTIC",
    )


def recognize(model: Model, text: str) -> StatedAnchorDetector:
    """Returns the detector of a model with the anchors of a text.

    Args:
        model: the model.
        text: anchors, such as "mediapipe:8,16,16,16".

    Raises:
        OptionError: if the text names no anchors, or they do not fit the model.
    """
    outputs = find_outputs(model)
    if outputs is None:
        raise OptionError(
            "anchors",
            "must come with a detector of two outputs, codes (1, A, 4 or more) and scores "
            "(1, A, classes)",
            model.path,
        )
    strides = _strides(text)
    cells = sum(_grid(outputs, stride).prod().item() for stride in strides)
    if outputs.anchors not in (cells, 2 * cells):
        raise OptionError(
            "anchors",
            f"must give the {outputs.anchors:,} anchors of {model.path}",
            f"{text}, which gives {cells:,} or {2 * cells:,}",
        )
    return StatedAnchorDetector(outputs, _anchors(outputs, strides, outputs.anchors // cells))


def _strides(text: str) -> list[int]:
    words = text.removeprefix(PREFIX).split(",")
    numbers = (word for word in words if word.isascii() and word.isdecimal())
    strides = [int(word) for word in numbers if len(word) <= DIGITS]
    if not text.startswith(PREFIX) or len(strides) != len(words) or not all(strides):
        rule = f"must be {PREFIX} and the strides of the layers, such as {EXAMPLE}"
        raise OptionError("anchors", rule, text)
    return strides


def _grid(outputs: Outputs, stride: int) -> Array:
    """Returns the number of rows and columns of a layer."""
    return np.array([-(-n // stride) for n in (outputs.height, outputs.width)])


def _anchors(outputs: Outputs, strides: Sequence[int], each: int) -> Array:
    """Returns the anchors (A, 4): cell by cell of each grid, those of all its layers."""
    last = len(strides) - 1
    scales = [LEAST + (MOST - LEAST) * (k / last if last else 0.5) for k in range(last + 1)]
    scales.append(1.0)
    parts = []
    first = 0
    while first <= last:
        end = first
        sizes: list[float] = []
        while end <= last and strides[end] == strides[first]:
            sizes += (scales[end], math.sqrt(scales[end] * scales[end + 1]))[:each]
            end += 1
        rows, columns = _grid(outputs, strides[first]).tolist()
        y, x, size = np.meshgrid(
            (np.arange(rows) + 0.5) / rows,
            (np.arange(columns) + 0.5) / columns,
            sizes,
            indexing="ij",
        )
        parts.append(np.stack((y, x, size, size), -1).reshape(-1, 4))
        first = end
    return np.concatenate(parts).astype(np.float32)
