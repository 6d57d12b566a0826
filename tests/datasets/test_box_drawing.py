"""Boxes on pictures."""

import numpy as np
import pytest
from PIL import Image

from odt.datasets.boxes.drawing import (
    COLORS,
    DrawnBox,
    detected_boxes,
    draw_boxes,
    true_boxes,
)


def drawn(*boxes: DrawnBox, size: tuple[int, int] = (100, 60)) -> np.ndarray:
    image = Image.new("RGB", size)
    draw_boxes(image, boxes)
    return np.asarray(image)


def test_a_box_is_drawn_at_its_corners() -> None:
    pixels = drawn(DrawnBox(0.25, 0.1, 0.75, 0.9, color=COLORS[2]))
    rows, columns = np.nonzero((pixels == COLORS[2]).all(axis=2))
    assert (rows.min(), rows.max()) == (15, 44)
    assert (columns.min(), columns.max()) == (10, 89)
    assert not pixels[20:40, 20:80].any()


def test_a_dashed_line_has_gaps() -> None:
    line, dashes = (
        drawn(DrawnBox(0.25, 0.1, 0.75, 0.9, color=COLORS[2], dashed=dashed))[15]
        for dashed in (False, True)
    )
    own = [(row[10:90] == COLORS[2]).all(axis=1).mean() for row in (line, dashes)]
    assert own[0] == 1
    assert 0.3 < own[1] < 0.7


def test_the_text_is_in_the_picture() -> None:
    """Above the box; inside where there is no space; boxes beyond the picture are cut."""
    for box in (
        DrawnBox(0.5, 0.1, 0.9, 0.9, "white 0.87"),
        DrawnBox(0, 0, 1, 1, "white 0.87"),
        DrawnBox(-0.5, 0.9, 1.5, 1.2, "white 0.87"),
    ):
        with_text = drawn(box)
        without = drawn(DrawnBox(box.y1, box.x1, box.y2, box.x2))
        changed = (with_text != without).any(axis=2)
        assert 400 < changed.sum() < 1500
    assert changed.any(axis=0).argmax() < 60  # it begins where all of it fits


def test_names_of_any_script_are_drawn() -> None:
    without = drawn(DrawnBox(0.5, 0.1, 0.9, 0.9))
    assert (drawn(DrawnBox(0.5, 0.1, 0.9, 0.9, "細胞 é")) != without).any()


def test_rows_become_boxes() -> None:
    rows = np.array([[1, 0.1, 0.2, 0.3, 0.4], [-1, 0, 0, 0, 0], [2, 0, 0, 1, 1]], np.float32)
    first, second = true_boxes(rows, ["red", "white"], dashed=True)
    assert (first.text, first.dashed, second.text) == ("white", True, "2")
    assert (first.y1, first.x2) == pytest.approx((0.1, 0.4))
    assert first.color != second.color


def test_the_best_detection_is_drawn_last() -> None:
    rows = np.array([[0, 0.9, 0, 0, 1, 1], [1, 0.25, 0, 0, 1, 1]], np.float32)
    assert [box.text for box in detected_boxes(rows, ["red", "white"])] == [
        "white 0.25",
        "red 0.90",
    ]
