"""The matcher of anchors and boxes, against a reference with loops; codes and their inverse."""

import math

import numpy as np
import pytest
from support.random_boxes import random_boxes

from odt.kernels.rows.opdef import Array
from odt.tasks.geometry import corners, suppress
from odt.tasks.matching import decode, encode, match

SCALES = np.array((10, 10, 5, 5), np.float32)


def reference_iou(a: list[float], b: list[float]) -> float:
    height = min(a[2], b[2]) - max(a[0], b[0])
    width = min(a[3], b[3]) - max(a[1], b[1])
    if height <= 0 or width <= 0:
        return 0.0
    both = height * width
    return both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both)


def reference_match(anchors: list[list[float]], boxes: list[list[float]]) -> list[int]:
    """ArgMaxMatcher with both thresholds 0.5 and a forced match for each row, box by box."""
    table = [[reference_iou(box, anchor) for anchor in anchors] for box in boxes]
    matches = []
    for k in range(len(anchors)):
        column = [row[k] for row in table]
        best = max(column, default=0.0)
        matches.append(column.index(best) if best >= 0.5 else -1)
    forced: dict[int, int] = {}
    for box, row in enumerate(table):
        forced.setdefault(row.index(max(row)), box)
    for anchor, box in forced.items():
        matches[anchor] = box
    return matches


def random_anchors(rng: np.random.Generator, count: int) -> Array:
    return np.column_stack(
        (rng.uniform(0, 1, (count, 2)), rng.uniform(0.05, 0.7, (count, 2)))
    ).astype(np.float32)


def test_matches_are_those_of_the_reference() -> None:
    forced = 0
    for seed in range(1000):
        rng = np.random.default_rng(seed)
        anchors = corners(random_anchors(rng, 30))
        boxes = random_boxes(rng, rng.integers(0, 8))[:, 1:]
        matches = match(anchors, boxes)
        assert matches.tolist() == reference_match(anchors.tolist(), boxes.tolist())
        forced += len(boxes) > len(set(matches.tolist()) - {-1})
    assert forced, "no set has two boxes with the same best anchor"


def test_codes_are_those_of_the_formula_and_decode_to_the_boxes() -> None:
    rng = np.random.default_rng(0)
    anchors, boxes = random_anchors(rng, 500), random_boxes(rng, 500)[:, 1:]
    codes = encode(boxes, anchors, SCALES)
    (y1, x1, y2, x2), (y, x, height, width) = boxes[7].tolist(), anchors[7].tolist()
    expected = [
        10 * ((y1 + y2) / 2 - y) / height,
        10 * ((x1 + x2) / 2 - x) / width,
        5 * math.log((y2 - y1) / height),
        5 * math.log((x2 - x1) / width),
    ]
    assert codes[7] == pytest.approx(expected, abs=1e-5)
    assert np.abs(decode(codes, anchors, SCALES) - boxes).max() < 1e-5


def test_suppression_keeps_the_best_of_boxes_that_overlap() -> None:
    boxes = np.array([[0, 0, 1, 1], [0, 0, 1, 0.9], [0, 0, 0.4, 0.4], [0, 0, 1, 0.4]], np.float32)
    scores = np.array([0.5, 0.9, 0.7, 0.6], np.float32)
    assert suppress(boxes, scores, 0.6, 100).tolist() == [1, 2, 3]  # of 0 and 1, 0.9 overlaps
    assert suppress(boxes, scores, 0.3, 100).tolist() == [1, 2]
    assert suppress(boxes, scores, 0.6, 2).tolist() == [1, 2]
