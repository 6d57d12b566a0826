"""Random true boxes and detections of photos."""

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def random_boxes(rng: np.random.Generator, count: int | np.integer[Any], classes: int = 3) -> Array:
    """Returns boxes (count, 5): class, y1, x1, y2, x2, with sizes from 0.05 to 0.5."""
    sizes = rng.uniform(0.05, 0.5, (count, 2))
    low = rng.uniform(0, 1, (count, 2)) * (1 - sizes)
    numbers = rng.integers(0, classes, (count, 1))
    return np.concatenate((numbers, low, low + sizes), axis=1).astype(np.float32)


def random_photos(seed: int) -> list[tuple[Array, Array]]:
    """Returns detections (K, 6) and true boxes (M, 5) of some photos.

    Detections are true boxes that were moved, some twice, and others; scores repeat, some classes
    have no true box, and some photos have no boxes or no detections.
    """
    rng = np.random.default_rng(seed)
    photos = []
    for _ in range(rng.integers(1, 12)):
        true = random_boxes(rng, rng.integers(0, 9))
        copies = true[rng.integers(0, len(true), rng.integers(0, 12))] if len(true) else true
        moved = copies + np.float32(rng.normal(0, rng.uniform(0.001, 0.08), copies.shape))
        others = random_boxes(rng, rng.integers(0, 6), 4)
        boxes = np.concatenate((moved, others))
        boxes[:, 0] = np.concatenate((copies[:, 0], others[:, 0]))
        boxes[:, 3:] = np.maximum(boxes[:, 3:], boxes[:, 1:3] + np.float32(0.01))
        scores = np.float32(rng.integers(1, 40, (len(boxes), 1)) / 40)
        photos.append((np.concatenate((boxes[:, :1], scores, boxes[:, 1:]), axis=1), true))
    return photos
