"""Mean average precision: the values of pycocotools on random photos."""

import numpy as np
import pytest
from support.random_boxes import random_photos

from odt.tasks.average_precision import PrecisionCurves, mean_average_precision

# Seed of random_photos → mAP and mAP at 0.5 of COCOeval, pycocotools 2.0.11, on its photos: boxes
# as x, y, width, height in float64, every box with its area and iscrowd 0, all classes from 0 to 2.
# tests/accept/test_accept_detectors.py compares more of them with an installed pycocotools.
JUDGED = [
    (0, 0.05644659860041435, 0.17213211296066952),
    (1, 0.027708104143747705, 0.08206820682068207),
    (2, 0.09189316152041835, 0.19475732317898886),
    (3, 0.11039520860165038, 0.23843208900722007),
    (4, 0.16328764529113973, 0.33086165759433084),
    (5, 0.06687282943980674, 0.2107843137254902),
    (6, 0.13698569856985696, 0.37293729372937295),
    (7, 0.09091763650866556, 0.21405191843146396),
    (8, 0.2683745517408883, 0.5579422227937079),
    (9, 0.33346298915605843, 0.5524516737388024),
    (10, 0.03915509852253101, 0.15588631231544206),
    (11, 0.06930693069306929, 0.06930693069306929),
]
CLASSES_OF_SEED_0 = {0: 0.0983225677626497, 1: 0.023126312631263125, 2: 0.0478909154073302}


@pytest.mark.parametrize(("seed", "whole", "half"), JUDGED)
def test_equals_pycocotools(seed: int, whole: float, half: float) -> None:
    photos = random_photos(seed)
    value = mean_average_precision([a for a, _ in photos], [b for _, b in photos])
    assert value.map == pytest.approx(whole, abs=1e-9)
    assert value.map50 == pytest.approx(half, abs=1e-9)


def test_each_class_equals_pycocotools() -> None:
    photos = random_photos(0)
    value = mean_average_precision([a for a, _ in photos], [b for _, b in photos])
    assert {n: whole for n, (whole, _) in value.classes.items()} == pytest.approx(
        CLASSES_OF_SEED_0, abs=1e-9
    )


def test_rows_that_are_no_boxes_do_not_count() -> None:
    box = [0.0, 0.1, 0.1, 0.4, 0.5]
    curves = PrecisionCurves()
    curves.add(np.array([[0, 0.9, *box[1:]]], np.float32), np.array([box, [-1, 0, 0, 0, 0]]))
    assert curves.value().map == pytest.approx(1)


def test_photos_without_boxes_have_no_value() -> None:
    curves = PrecisionCurves()
    curves.add(np.zeros((0, 6), np.float32), np.zeros((0, 5), np.float32))
    assert np.isnan(curves.value().map)
