"""Recognition, targets, position weights and detections of detectors."""

from pathlib import Path

import numpy as np
import pytest
from support.detectors import SIDE, grid_anchors, small_detector
from support.judges import litert
from support.random_boxes import random_boxes

from odt.core.export.model_builder import ModelBuilder
from odt.core.formats.flatbuffer.reader import parse_model
from odt.kernels.rows.opdef import Array
from odt.tasks.average_precision import count_overlaps, mean_average_precision
from odt.tasks.box_counts import BoxCounts
from odt.tasks.center_f1 import count_centers
from odt.tasks.detector import Detector
from odt.tasks.geometry import corners
from odt.tasks.labels import recorded_slots
from odt.tasks.matching import match
from odt.tasks.recognition import detector_of

BACKGROUND, CLASSES = 1, 3


def detector(data: bytes) -> Detector:
    model = detector_of(parse_model(memoryview(data), "m.tflite"))
    assert model is not None
    return model


def grid(
    classes: int = 3, cells: int = 4, side: int = 32, op: str = "SOFTMAX", width: int = 0
) -> bytes:
    """Returns a model with a grid of probabilities; its photos are square if width is 0."""
    width = width or side
    b = ModelBuilder("tflite")
    x = b.add_input((1, side, width, 3))
    w = b.add_weight((classes, 1, 1, 3), 3)
    shape = (1, cells, cells, classes)
    bias = b.add_constant(np.zeros(classes, np.float32))
    y = b.add_operator(
        "CONV_2D", (x, w, bias), shape, stride_h=side // cells, stride_w=width // cells
    )
    return b.build(b.add_operator(op, (y,), shape))


def photos(seed: int, counts: tuple[int, ...], rows: int) -> Array:
    """Returns boxes (N, rows, 5), padded."""
    rng = np.random.default_rng(seed)
    boxes = np.zeros((len(counts), rows, 5), np.float32)
    boxes[..., 0] = -1
    for k, count in enumerate(counts):
        boxes[k, :count] = random_boxes(rng, count)
    return boxes


def encoded(model: Detector, boxes: Array, *shapes: tuple[int, int]) -> list[Array]:
    """Returns targets and weights, for shapes (positions, columns) of the targets."""
    targets = [np.full((len(boxes), p, c), 7, np.float32) for p, c in shapes]
    targets += [np.full((len(boxes), p), 7, np.float32) for p, _ in shapes]
    model.encode(boxes, targets)
    return targets


@pytest.mark.parametrize(
    "slots", [[[1], [2]], ["a", 1], ["a", "b"], [0.5, 1], [True, 0], [-1, 0], [1, 1], [1], 7, None]
)
def test_damaged_slots_of_a_record_are_ignored(slots: object) -> None:
    assert recorded_slots({"classes": ["u", "v"], "slots": slots}) == []
    assert recorded_slots({"classes": ["u", "v"], "slots": [3, 1]}) == [3, 1]


def test_anchors_are_described() -> None:
    assert str(detector(small_detector(CLASSES))) == "160 anchors, 3 class slots, 10 detections"


def test_other_models_are_no_detectors() -> None:
    b = ModelBuilder("tflite")
    x = b.add_input((1, 4))
    assert detector_of(parse_model(memoryview(b.build(b.add_dense(x, 2))), "m.tflite")) is None
    for segmentation in (grid(cells=16, side=32), grid(cells=4, side=32, width=4)):
        assert detector_of(parse_model(memoryview(segmentation), "m.tflite")) is None


def test_weighted_losses_are_those_of_ssd() -> None:
    """Σ of both losses over a photo's anchors, divided by the anchors with a box."""
    boxes = photos(1, (4, 0, 2), 6)
    positives, slots = 5.0, (2, 0, 1)
    model = detector(small_detector(CLASSES)).prepared(slots, positives)
    columns = CLASSES + BACKGROUND
    codes, classes, code_weights, class_weights = encoded(model, boxes, (160, 4), (160, columns))
    rng = np.random.default_rng(2)
    x = rng.normal(0, 2, codes.shape)
    p = np.asarray(rng.uniform(0.01, 0.99, classes.shape))
    e = np.abs(x - codes)
    huber = np.asarray(np.where(e < 1, e * e / 2, e - 0.5)).mean(-1)
    q = np.where(classes == 1, p, 1 - p)
    alpha = np.where(classes == 1, 0.75, 0.25)
    focal = (-alpha * (1 - q) ** 2 * np.log(q)).mean(-1)
    box_losses = (huber * code_weights).mean(1)  # as the engine computes them
    class_losses = (focal * class_weights).mean(1)
    for k, rows in enumerate(boxes):
        true = rows[rows[:, 0] >= 0]
        matches = match(corners(grid_anchors()), true[:, 1:]).tolist()
        pairs = [(a, m) for a, m in enumerate(matches) if m >= 0]
        box_loss = huber[k, [a for a, _ in pairs]].sum() / positives
        one_hot = np.zeros((160, columns))
        for a, m in pairs:
            one_hot[a, 1 + slots[int(true[m, 0])]] = 1
        q_true = np.where(one_hot == 1, p[k], 1 - p[k])
        a_true = np.where(one_hot == 1, 0.75, 0.25)
        class_loss = (-a_true * (1 - q_true) ** 2 * np.log(q_true)).sum() / positives
        assert box_losses[k] == pytest.approx(box_loss, rel=1e-5)
        assert class_losses[k] == pytest.approx(class_loss, rel=1e-5)


def test_files_without_background_have_the_losses_of_efficientdet() -> None:
    data = small_detector(CLASSES, background=False)
    model = detector(data)
    boxes, classes = model.tensors
    assert model.losses == {
        boxes: "huber:delta=0.1",
        classes: "binary_focal_crossentropy:apply_class_balancing=True,gamma=1.5",
    }
    codes, targets, code_weights, _ = encoded(model, photos(1, (3,), 3), (160, 4), (160, CLASSES))
    at = code_weights[0] > 0
    assert code_weights[0, at] == pytest.approx(50 * 160)  # with one anchor a photo on average
    assert (targets[0].sum(1) == at).all()
    assert not codes[0, ~at].any()


def test_targets_decode_to_the_boxes() -> None:
    boxes = photos(4, (4, 0, 5), 5)
    data = small_detector(CLASSES, nms_iou_threshold=0.99)
    model = detector(data).prepared((2, 0, 1), 1.0)
    codes, scores, *_ = encoded(model, boxes, (160, 4), (160, CLASSES + BACKGROUND))
    detections = model.decode([codes, scores])
    assert mean_average_precision(detections, list(boxes)).map == pytest.approx(1)
    assert [len(d) for d in detections] == [4, 0, 5]
    assert model.positives(boxes[0]) == (scores[0].sum(1) > 0).sum()


def test_detections_are_those_of_litert(tmp_path: Path) -> None:
    """With one class, the operator's own suppression is that of each class."""
    data = small_detector(1, seed=4, max_detections=100)
    path = tmp_path / "m.tflite"
    path.write_bytes(data)
    image = np.random.default_rng(0).random((1, SIDE, SIDE, 3), np.float32)
    boxes, _, scores, count = litert(path, [image])
    model = detector(data)
    raw = tmp_path / "raw.tflite"
    raw.write_bytes(small_detector(1, seed=4, post_process=False))
    (detections,) = model.decode(litert(raw, [image]))
    assert len(detections) == int(count[0]) > 10
    assert detections[:, 1] == pytest.approx(scores[0][: len(detections)], abs=1e-6)
    assert detections[:, 2:] == pytest.approx(boxes[0][: len(detections)], abs=1e-5)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e4])
def test_boxes_that_are_not_finite_are_no_detections(value: float) -> None:
    model = detector(small_detector(CLASSES))
    codes = np.zeros((1, 160, 4), np.float32)
    scores = np.full((1, 160, CLASSES + BACKGROUND), 0.1, np.float32)
    scores[0, :2, 1] = 0.9
    codes[0, 0, 3] = value
    (rows,) = model.decode([codes, scores])
    assert np.isfinite(rows).all()
    assert (rows[:, 1] > 0.5).sum() == 1


@pytest.mark.parametrize(("op", "loss"), [("SOFTMAX", "categorical"), ("LOGISTIC", "binary")])
def test_cells_hold_the_centers_of_boxes(op: str, loss: str) -> None:
    model = detector(grid(op=op)).prepared((1, 0), 1.0)
    assert str(model) == "4 × 4 cells, 2 class slots"
    assert list(model.losses.values()) == [f"{loss}_crossentropy"]
    rows = [[0, 0.1, 0.6, 0.2, 1.0], [1, 0.5, 0, 1.0, 0.3], [-1, 0, 0, 0, 0]]
    classes, weights = encoded(model, np.array([rows], np.float32), (16, 3))
    expected = np.tile([1, 0, 0], (4, 4, 1))
    expected[0, 3], expected[3, 0] = (0, 0, 1), (0, 1, 0)  # class 0 has the second slot
    assert (classes.reshape(4, 4, 3) == expected).all()
    heavy = np.argwhere(weights.reshape(4, 4) > 1).tolist()
    assert heavy == [[0, 3], [3, 0]]
    assert model.positives(np.array(rows, np.float32)) == 2


def test_cells_that_touch_are_one_detection() -> None:
    model = detector(grid(cells=6, side=48))
    scores = np.tile(np.array([0.8, 0.1, 0.1], np.float32), (1, 6, 6, 1))
    for y, x, score in ((0, 0, 0.7), (1, 1, 0.9), (1, 2, 0.6), (4, 4, 0.55)):
        scores[0, y, x] = (1 - score, score, 0)
    scores[0, 2, 3] = (0.3, 0, 0.7)  # another class beside them
    (detections,) = model.decode([scores])
    assert detections == pytest.approx(
        np.array(
            [
                [0, 0.9, 0, 0, 2 / 6, 3 / 6],
                [1, 0.7, 2 / 6, 3 / 6, 3 / 6, 4 / 6],
                [0, 0.55, 4 / 6, 4 / 6, 5 / 6, 5 / 6],
            ]
        )
    )


def test_f1_counts_each_box_once() -> None:
    boxes = np.array([[0, 0, 0, 0.5, 0.5], [1, 0.5, 0.5, 1, 1], [-1, 0, 0, 0, 0]])
    detections = np.array(
        [
            [0, 0.9, 0.1, 0.1, 0.3, 0.3],
            [0, 0.8, 0.2, 0.2, 0.4, 0.4],  # in a box that the first has
            [0, 0.7, 0.6, 0.6, 0.8, 0.8],  # of another class
        ]
    )
    counts = count_centers(detections, boxes)
    assert counts == BoxCounts(true=1, false=2, missed=1)
    assert (counts + counts).f1 == pytest.approx(2 / 5)
    assert np.isnan(BoxCounts().f1)


def test_overlaps_are_counted_by_class() -> None:
    boxes = np.array([[0, 0, 0, 1, 1], [1, 0, 0, 1, 1], [-1, 0, 0, 0, 0]], np.float32)
    rows = [
        [0, 0.6, 0, 0, 1, 0.9],  # the better one has the box
        [0, 0.9, 0, 0, 1, 0.5],  # half of the box
        [1, 0.9, 0, 0, 1, 0.49],
    ]
    counts = count_overlaps(np.array(rows, np.float32), boxes)
    assert counts == BoxCounts(true=1, false=2, missed=1)
