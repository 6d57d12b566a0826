"""TFLite_Detection_PostProcess: the operator that makes boxes of a detector's outputs.

Its inputs are codes (1, A, 4), scores (1, A, C) and anchors (A, 4); its options are a FlexBuffers
map. The center of a box is code / scale · size of its anchor + center of its anchor; its size is
exp(code / scale) · size of its anchor. Source: tensorflow/lite/kernels/detection_postprocess.cc.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from odt.core.model.graph import ABSENT, Node
from odt.core.model.model import Model
from odt.dataclass import dataclass
from odt.errors import ModelError, ShapeError
from odt.kernels.geometry.flex_map import has_field, unpack_map
from odt.kernels.geometry.quantize import dequantize
from odt.kernels.rows.opdef import Array, Options

OPERATOR = "CUSTOM:TFLite_Detection_PostProcess"
SCALES = ("y_scale", "x_scale", "h_scale", "w_scale")  # in the order of codes and anchors
COUNTS = ("num_classes", "max_detections", "max_classes_per_detection")
NUMBERS = (*SCALES, *COUNTS, "nms_score_threshold", "nms_iou_threshold")
OPTIONAL = ("detections_per_class", "use_regular_nms")
OUTPUTS = 4  # boxes, classes, scores and number of detections


@dataclass(frozen=True, slots=True)
class PostProcess:
    """The post-processing of a detector.

    Attributes:
        node: the operator.
        boxes, scores: tensors of codes (1, A, 4 or more) and scores (1, A, C).
        anchors: float32 (A, 4): center y, center x, height, width, as fractions of the input.
        scales: by which the codes of y, x, h and w are divided.
        classes: number of classes without background; the last columns of the scores are theirs.
        max_detections: largest number of boxes that it returns.
        classes_per_detection: classes of one box, without `regular`.
        detections_per_class: largest number of boxes of one class, with `regular`.
        score_threshold, iou_threshold: of the suppression of overlapping boxes.
        regular: whether boxes of different classes do not suppress each other.
    """

    node: Node
    boxes: int
    scores: int
    anchors: Array
    scales: tuple[float, ...]
    classes: int
    max_detections: int
    classes_per_detection: int
    detections_per_class: int
    score_threshold: float
    iou_threshold: float
    regular: bool


def read_post_process(model: Model) -> PostProcess | None:
    """Returns the post-processing of a model; None for a model without the operator.

    Raises:
        ModelError: if its anchors are no constant of numbers in four columns, its options are
            damaged, or its shapes do not fit together.
    """
    nodes = [node for node in model.graph.nodes if node.op == OPERATOR]
    if not nodes:
        return None
    node = nodes[0]
    where = f"{model.path}: operator {node.origin} ({OPERATOR})"
    count = len(node.inputs) - node.inputs.count(ABSENT)
    has_all = count == len(node.inputs) == 3 and len(node.outputs) == OUTPUTS
    if len(nodes) > 1 or not has_all:
        raise ModelError(
            f"{where}: must be the only one and have 3 inputs and 4 outputs, but got {len(nodes)} "
            f"with {count} inputs and {len(node.outputs)} outputs"
        )
    anchors = _anchors(model, node.inputs[2], where)
    numbers = read_options(node.options, where)
    boxes, scores = (model.graph.tensors[i].spec.shape for i in node.inputs[:2])
    classes = int(numbers["num_classes"])
    fits = len(boxes) == len(scores) == 3 and boxes[1] == scores[1] == len(anchors)
    if not fits or boxes[2] < 4 or not classes <= scores[2] <= classes + 1:
        raise ModelError(
            f"{where}: must read codes (1, {len(anchors)}, 4) and scores (1, {len(anchors)}, "
            f"{classes} or {classes + 1}) for its anchors and classes, but got {boxes} and {scores}"
        )
    return PostProcess(
        node,
        node.inputs[0],
        node.inputs[1],
        anchors,
        tuple(numbers[name] for name in SCALES),
        classes,
        int(numbers["max_detections"]),
        int(numbers["max_classes_per_detection"]),
        int(numbers.get("detections_per_class", 100)),
        numbers["nms_score_threshold"],
        numbers["nms_iou_threshold"],
        bool(numbers.get("use_regular_nms", False)),
    )


def read_options(options: Options, where: str) -> dict[str, float]:
    """Returns the options of the operator: name → number.

    Raises:
        ModelError: if they are no FlexBuffers map of the numbers that the operator needs, or a
            scale or count is not above 0.
    """
    names = [*NUMBERS, *(name for name in OPTIONAL if has_field(options, name))]
    try:
        numbers = {k: n for k, (n,) in unpack_map(options, dict.fromkeys(names, 1)).items()}
    except ShapeError as e:
        raise ModelError(f"{where}: {e}") from e
    wrong = [f"{k} {numbers[k]:g}" for k in (*SCALES, *COUNTS) if numbers[k] <= 0]
    if wrong:
        raise ModelError(f"{where}: scales and counts must be above 0, but got {', '.join(wrong)}")
    return numbers


def change_counts(options: Options, counts: Mapping[str, int], where: str) -> bytes:
    """Returns the bytes of the options with other counts, as many as before.

    Args:
        options: options that `read_options` accepts.
        counts: new count by name, such as `max_detections`.
        where: the operator in messages.

    Raises:
        ModelError: if an old count is no integer, or its memory is too small for the new one.
    """
    from flatbuffers import flexbuffers

    data = bytearray(options["custom_options"])
    fields: Any = flexbuffers.GetRoot(data).AsMap
    for name, count in counts.items():
        if not fields[name].MutateInt(count):
            raise ModelError(
                f"{where}: {name} must be an integer in the file, with enough bytes for {count}"
            )
    return bytes(data)


def _anchors(model: Model, tensor: int, where: str) -> Array:
    anchors = model.graph.tensors[tensor]
    are_numbers = anchors.spec.dtype.kind in "fiu"  # those of 4 bits are records
    fits = are_numbers and anchors.spec.shape[1:] == (4,) and anchors.spec.size
    if anchors.data is None or not fits:
        raise ModelError(
            f"{where}: its anchors must be a constant (A, 4) of numbers, but got {anchors.spec} "
            f"{'computed' if anchors.data is None else 'constant'}"
        )
    values = anchors.data
    if tensor in model.quantization:
        values = dequantize(values, model.quantization[tensor])
    values = np.asarray(values, np.float32)
    if not np.isfinite(values).all() or (values[:, 2:] <= 0).any():
        raise ModelError(f"{where}: its anchors must be finite and have a size above 0")
    return values
