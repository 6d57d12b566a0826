"""Mean average precision (mAP) of detections, as COCO defines it.

Detections of a class in a photo, at most 100, take the true box that they overlap most, best score
first. Precision is made monotone and read at 101 recalls; the mean over classes and over ten
thresholds of the intersection over union, 0.50, 0.55 … 0.95, is the mAP. Source: COCOeval of
pycocotools, without crowds and ranges of areas.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from odt.dataclass import dataclass
from odt.kernels.rows.opdef import Array
from odt.tasks.box_counts import BoxCounts
from odt.tasks.geometry import overlaps

THRESHOLDS = np.linspace(0.5, 0.95, 10)
RECALLS = np.linspace(0, 1, 101)
DETECTIONS = 100  # of a class in a photo
NEARLY_ALL = 1 - 1e-10  # highest threshold in effect


@dataclass(frozen=True, slots=True)
class AveragePrecision:
    """Average precision of a set of photos.

    Attributes:
        map: mean over classes and thresholds; NaN without true boxes.
        map50: mean over classes at the threshold 0.5.
        classes: class → its mean over thresholds, and its value at 0.5, for classes with boxes.
    """

    map: float
    map50: float
    classes: Mapping[int, tuple[float, float]]


class PrecisionCurves:
    """Collects the detections of photos, and computes their average precision."""

    def __init__(self) -> None:
        self._scores: dict[int, list[Array]] = {}  # by class
        self._hits: dict[int, list[Array]] = {}
        self._boxes: dict[int, int] = {}

    def add(self, detections: Array, boxes: Array) -> None:
        """Adds a photo.

        Args:
            detections: detections (K, 6): class, score, y1, x1, y2, x2.
            boxes: true boxes (M, 5): class, y1, x1, y2, x2; rows with a class below 0 are no boxes.
        """
        for number, guesses, true in _by_class(detections, boxes):
            self._boxes[number] = self._boxes.get(number, 0) + len(true)
            self._scores.setdefault(number, []).append(guesses[:, 1])
            self._hits.setdefault(number, []).append(_hits(guesses[:, 2:], true))

    def value(self) -> AveragePrecision:
        """Returns the average precision of all photos so far."""
        curves = {number: self._precision(number) for number, n in sorted(self._boxes.items()) if n}
        if not curves:
            return AveragePrecision(float("nan"), float("nan"), {})
        classes = {n: (float(p.mean()), float(p[0].mean())) for n, p in curves.items()}
        everything = np.stack([*curves.values()])
        return AveragePrecision(float(everything.mean()), float(everything[:, 0].mean()), classes)

    def _precision(self, number: int) -> Array:
        """Returns the precision (thresholds, recalls) of a class."""
        scores = np.concatenate(self._scores[number])
        hits = np.concatenate(self._hits[number], axis=1)[:, np.argsort(-scores, kind="stable")]
        precisions = np.zeros((len(THRESHOLDS), len(RECALLS)))
        if not len(scores):
            return precisions
        true = np.cumsum(hits, axis=1, dtype=np.float64)
        false = np.cumsum(~hits, axis=1, dtype=np.float64)
        recall = true / self._boxes[number]
        precision = true / (true + false + np.spacing(1))
        precision = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
        for row, recalls, values in zip(precisions, recall, precision, strict=True):
            at = np.searchsorted(recalls, RECALLS, side="left")
            inside = at < len(values)
            row[inside] = values[at[inside]]
        return precisions


def _by_class(detections: Array, boxes: Array) -> Iterator[tuple[int, Array, Array]]:
    """Yields the classes of a photo, each with detections (K, 6), the best first, and boxes."""
    boxes = boxes[boxes[:, 0] >= 0].astype(np.float64)
    detections = detections.astype(np.float64)
    for number in np.union1d(boxes[:, 0], detections[:, 0]).astype(int).tolist():
        guesses = detections[detections[:, 0] == number]
        guesses = guesses[np.argsort(-guesses[:, 1], kind="stable")[:DETECTIONS]]
        yield number, guesses, boxes[boxes[:, 0] == number, 1:]


def _hits(guesses: Array, true: Array) -> Array:
    """Returns whether each detection hits a box that no better one hits (thresholds, K)."""
    hits = np.zeros((len(THRESHOLDS), len(guesses)), bool)
    if not len(true):
        return hits
    least = np.minimum(THRESHOLDS, NEARLY_ALL)
    free = np.ones((len(THRESHOLDS), len(true)), bool)
    rows = np.arange(len(THRESHOLDS))
    for k, iou in enumerate(overlaps(guesses, true)):
        candidates = np.where(free, iou, -1)
        best = len(true) - 1 - candidates[:, ::-1].argmax(1)  # the last of equal ones
        hits[:, k] = candidates[rows, best] >= least
        free[rows[hits[:, k]], best[hits[:, k]]] = False
    return hits


def mean_average_precision(detections: Sequence[Array], boxes: Sequence[Array]) -> AveragePrecision:
    """Returns the average precision of photos.

    Args:
        detections: detections (K, 6) of each photo: class, score, y1, x1, y2, x2.
        boxes: true boxes (M, 5) of each photo: class, y1, x1, y2, x2.
    """
    curves = PrecisionCurves()
    for guesses, true in zip(detections, boxes, strict=True):
        curves.add(guesses, true)
    return curves.value()


def count_overlaps(detections: Array, boxes: Array) -> BoxCounts:
    """Returns the counts of a photo; a true detection overlaps its box by half or more.

    Args:
        detections: detections (K, 6): class, score, y1, x1, y2, x2.
        boxes: true boxes (M, 5): class, y1, x1, y2, x2; rows with a class below 0 are no boxes.
    """
    counts = BoxCounts()
    for _, guesses, true in _by_class(detections, boxes):
        hits = int(_hits(guesses[:, 2:], true)[0].sum())
        counts += BoxCounts(hits, len(guesses) - hits, len(true) - hits)
    return counts
