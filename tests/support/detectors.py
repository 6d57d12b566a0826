"""Small detectors that end in TFLite_Detection_PostProcess."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from op_db.support.flex_maps import flex_map

from odt.core.export.model_builder import ModelBuilder
from odt.kernels.rows.opdef import Array
from support.convolutions import add_convolution

SIDE, CELLS, SIZES = 32, (8, 4), ((0.2, 0.2), (0.3, 0.15))  # input, grids, (height, width)
OPTIONS: Mapping[str, Any] = {
    "max_detections": 10,
    "max_classes_per_detection": 1,
    "nms_score_threshold": 0.01,
    "nms_iou_threshold": 0.6,
    "y_scale": 10.0,
    "x_scale": 10.0,
    "h_scale": 5.0,
    "w_scale": 5.0,
}


def grid_anchors() -> Array:
    """Returns the anchors (A, 4) of all cells: center y, center x, height, width."""
    rows = [
        ((y + 0.5) / cells, (x + 0.5) / cells, height * 8 / cells, width * 8 / cells)
        for cells in CELLS
        for y in range(cells)
        for x in range(cells)
        for height, width in SIZES
    ]
    return np.array(rows, np.float32)


def small_detector(
    classes: int = 3,
    seed: int = 0,
    *,
    background: bool = True,
    post_process: bool = True,
    **options: Any,
) -> bytes:
    """Returns a float32 TFLite file.

    Args:
        classes: number of classes.
        seed: random seed of the weights.
        background: whether scores have a column for the background.
        post_process: whether it ends in the operator, and not before it.
        options: options of the operator in place of `OPTIONS`.
    """
    columns = classes + background
    b = ModelBuilder("tflite", seed)
    x = b.add_input((1, SIDE, SIDE, 3), name="image")
    codes: list[int] = []
    logits: list[int] = []
    side, channels = SIDE, 3
    for width, level in ((8, None), (16, 0), (16, 1)):
        side //= 2
        x = add_convolution(b, x, side, channels, width, 3, 2, 1)
        channels = width
        if level is not None:
            assert side == CELLS[level]
            anchors = side * side * len(SIZES)
            for outputs, values in ((codes, 4), (logits, columns)):
                head = add_convolution(b, x, side, channels, values * len(SIZES), 3, 1)
                shape = (1, anchors, values)
                new = b.add_constant(np.array(shape, np.int32))
                outputs.append(b.add_operator("RESHAPE", (head, new), shape))
    count = len(grid_anchors())
    boxes = b.add_operator("CONCATENATION", codes, (1, count, 4), axis=1)
    joined = b.add_operator("CONCATENATION", logits, (1, count, columns), axis=1)
    scores = b.add_operator("LOGISTIC", (joined,), (1, count, columns))
    if not post_process:
        return b.build(boxes, scores)
    fields = {**OPTIONS, "num_classes": classes, **options}
    n = fields["max_detections"]
    first = b.add_operator(
        "CUSTOM:TFLite_Detection_PostProcess",
        (boxes, scores, b.add_constant(grid_anchors(), "anchors")),
        *((1, n, 4), (1, n), (1, n), (1,)),
    )
    data = flex_map(**fields)["custom_options"]
    b.graph.operators[-1].custom_options = np.frombuffer(data, np.uint8)
    return b.build(*range(first, first + 4))
