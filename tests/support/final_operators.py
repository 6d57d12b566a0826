"""Models that end in operators without gradient: ARG_MAX, and the post-processing of a detector."""

from pathlib import Path
from typing import Any

import numpy as np
from flatbuffers import flexbuffers
from model_builder import ModelBuilder

from odt.kernels.rows.opdef import Array
from support.integer_files import QuantizedBuilder

SIDE, CLASSES, ANCHORS = 6, 4, 18
OPTIONS = {
    "max_detections": 3, "max_classes_per_detection": 1, "detections_per_class": 3,
    "nms_score_threshold": 0.0, "nms_iou_threshold": 0.6, "num_classes": CLASSES - 1,
    "y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0, "use_regular_nms": False,
}  # fmt: skip
CONV: Any = {"stride_h": 1, "stride_w": 1}


def conv(model: ModelBuilder, x: int, filters: int, name: str) -> int:
    """Adds a convolution with windows of 3 × 3."""
    shape = model.graph.tensors[x].shape
    w = model.add_weight((filters, 3, 3, shape[-1]), 9 * shape[-1], f"{name}/w")
    b = model.add_constant(np.zeros(filters, np.float32), f"{name}/b")
    y = model.add_operator("CONV_2D", (x, w, b), (*shape[:3], filters), **CONV)
    model.graph.tensors[y].name = name
    return y


def arg_max(model: ModelBuilder, x: int, axis: int) -> int:
    """Adds an ARG_MAX to int64."""
    shape = list(model.graph.tensors[x].shape)
    del shape[axis]
    at = model.add_constant(np.array(axis, np.int32))
    y = model.add_operator("ARG_MAX", (x, at), shape, dtype="int64", output_type=4)
    model.graph.tensors[y].name = "classes"
    return y


def segmentation(path: Path, *, softmax: bool = False, axis: int = -1) -> None:
    """A class for each pixel: two convolutions, perhaps SOFTMAX, and ARG_MAX."""
    model = ModelBuilder(path.suffix[1:], seed=4)
    h = conv(model, model.add_input((1, SIDE, SIDE, 2), name="image"), 8, "hidden")
    y = conv(model, model.add_operator("RELU", (h,), (1, SIDE, SIDE, 8)), CLASSES, "logits")
    if softmax:
        y = model.add_operator("SOFTMAX", (y,), (1, SIDE, SIDE, CLASSES), beta=1.0)
    model.write(path, arg_max(model, y, axis))


def detection(path: Path) -> None:
    """A detector: encodings of boxes and scores of classes, and TFLite's post-processing."""
    model = ModelBuilder(path.suffix[1:], seed=5)
    h = conv(model, model.add_input((1, 3, SIDE, 2), name="image"), 8, "hidden")
    h = model.add_operator("RELU", (h,), (1, 3, SIDE, 8))
    ends = []
    for name, count in (("boxes", 4), ("scores", CLASSES)):
        y = conv(model, h, count, f"{name}/map")
        y = model.add_operator("RESHAPE", (y,), (1, ANCHORS, count), new_shape=[1, -1, count])
        model.graph.tensors[y].name = name
        ends.append(y)
    ends[1] = model.add_operator("LOGISTIC", (ends[1],), (1, ANCHORS, CLASSES))
    model.graph.tensors[ends[1]].name = "probabilities"
    fixed = model.add_constant(anchors(), "anchors")
    model.write(path, *post_processing(model, (ends[0], ends[1], fixed)))


def quantized_detection(path: Path) -> None:
    """A detector of uint8, as converters of TensorFlow 1 write it."""
    net = QuantizedBuilder(seed=5)
    x = net.activation((1, ANCHORS, 3), 0.02, 128, "uint8")
    ends = []
    for count, scale in ((4, 0.05), (CLASSES, 0.05)):
        w = net.weights((count, 3), [0.01], dtype="uint8", zero=128)
        options = {"keep_num_dims": True}
        y = net.operator(
            "FULLY_CONNECTED", (x, w, net.bias(count, [2e-4])), (1, ANCHORS, count), scale, 128,
            "uint8", **options,
        )  # fmt: skip
        ends.append(y)
    ends[1] = net.operator("LOGISTIC", (ends[1],), (1, ANCHORS, CLASSES), 1 / 256, 0, "uint8")
    fixed = net.add_constant(np.round(anchors() * 200).astype(np.uint8), "anchors")
    net.quantize(fixed, [1 / 200], [0])
    net.write(path, *post_processing(net, (ends[0], ends[1], fixed)))


def post_processing(model: ModelBuilder, inputs: tuple[int, int, int]) -> tuple[int, ...]:
    """Adds TFLite's custom operator of detectors to boxes, scores and anchors."""
    count = OPTIONS["max_detections"]
    shapes: Any = ((1, count, 4), (1, count), (1, count), (1,))
    y = model.add_operator("CUSTOM:TFLite_Detection_PostProcess", inputs, *shapes)
    operator = model.graph.operators[-1]
    operator.custom_options = np.frombuffer(flexbuffers.Dumps(OPTIONS), np.uint8)
    return tuple(range(y, y + 4))


def anchors() -> Array:
    """Boxes of equal size on a grid: center y, x, height, width."""
    at = (np.arange(ANCHORS) + 0.5) / ANCHORS
    return np.stack([at, at[::-1], 0 * at + 0.2, 0 * at + 0.2], axis=1).astype(np.float32)
