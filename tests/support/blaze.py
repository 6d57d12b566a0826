"""Small detectors like BlazeFace: codes of a box and of points, logits, no anchors in the file."""

import numpy as np

from odt.core.export.model_builder import ModelBuilder
from support.convolutions import add_convolution

SIDE, ANCHORS, VALUES = 32, "mediapipe:8,16,16,16", 8  # x, y, width, height and two points
GRIDS = ((8, 2), (16, 6))  # stride, and anchors of a cell
COUNT = sum((SIDE // stride) ** 2 * each for stride, each in GRIDS)


def small_blaze(classes: int = 1, seed: int = 0) -> bytes:
    """Returns a float32 TFLite file.

    Args:
        classes: number of classes.
        seed: random seed of the weights.
    """
    b = ModelBuilder("tflite", seed)
    x = b.add_input((1, SIDE, SIDE, 3), name="image")
    parts: dict[int, list[int]] = {VALUES: [], classes: []}
    inputs = 3
    for stride, each in GRIDS:
        side = SIDE // stride
        step = 8 if inputs == 3 else 2
        x = add_convolution(b, x, side, inputs, 24, step, step, 1)
        inputs = 24
        for values, outputs in parts.items():
            head = add_convolution(b, x, side, inputs, values * each, 1, 1)
            shape = (1, side * side * each, values)
            new = b.add_constant(np.array(shape, np.int32))
            outputs.append(b.add_operator("RESHAPE", (head, new), shape))
    return b.build(
        *(
            b.add_operator("CONCATENATION", outputs, (1, COUNT, values), axis=1)
            for values, outputs in parts.items()
        )
    )
