"""Detections of LiteRT, and their average precision by pycocotools."""

import contextlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter

from odt.core.formats.flatbuffer.detection_postprocess import change_counts, read_post_process
from odt.core.formats.reader import read_model
from odt.kernels.rows.opdef import Array


def litert_detections(path: Path, inputs: Sequence[Array], slots: Sequence[int]) -> list[Array]:
    """Returns the detections (K, 6) of a file with post-processing, of the classes in some slots.

    Args:
        path: the model.
        inputs: inputs (H, W, C) of the photos.
        slots: class of the data → slot of the model; detections of other slots are left out.
    """
    interpreter = Interpreter(str(path), num_threads=2)
    interpreter.allocate_tensors()
    (image,) = interpreter.get_input_details()
    numbers = [detail["index"] for detail in interpreter.get_output_details()]
    detections = []
    for x in inputs:
        interpreter.set_tensor(image["index"], x[np.newaxis])
        interpreter.invoke()
        boxes, classes, scores, count = (interpreter.get_tensor(i)[0] for i in numbers)
        rows = np.column_stack((classes, scores, boxes))[: int(count)]
        rows = rows[np.isin(rows[:, 0], slots)]
        rows[:, 0] = [slots.index(int(slot)) for slot in rows[:, 0]]
        detections.append(rows)
    return detections


def litert_outputs(path: Path, inputs: Array) -> list[Array]:
    """Returns the real values of each output of a quantized file for inputs (N, …)."""
    interpreter = Interpreter(str(path), num_threads=2)
    interpreter.allocate_tensors()
    (image,) = interpreter.get_input_details()
    details = interpreter.get_output_details()
    outputs: list[list[Array]] = [[] for _ in details]
    for x in inputs:
        interpreter.set_tensor(image["index"], x[np.newaxis])
        interpreter.invoke()
        for rows, detail in zip(outputs, details, strict=True):
            scale, zero = detail["quantization"]
            values = interpreter.get_tensor(detail["index"])
            rows.append((values.astype(np.float32) - zero) * np.float32(scale))
    return [np.concatenate(rows) for rows in outputs]


def with_max_detections(path: Path, count: int, copy: Path) -> Path:
    """Writes a copy of a file whose post-processing returns more detections."""
    post = read_post_process(read_model(path))
    assert post is not None
    new = change_counts(post.node.options, {"max_detections": count}, "test")
    copy.write_bytes(path.read_bytes().replace(post.node.options["custom_options"], new))
    return copy


def coco_precision(detections: Sequence[Array], boxes: Sequence[Array]) -> tuple[float, float]:
    """Returns mAP and mAP at 0.5 by pycocotools; arguments as of `mean_average_precision`."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    annotations: list[dict[str, Any]] = []
    results = []
    for k, (guesses, true) in enumerate(zip(detections, boxes, strict=True), 1):
        for number, *box in true[true[:, 0] >= 0].astype(float).tolist():
            area = (box[2] - box[0]) * (box[3] - box[1])
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": k,
                    "category_id": int(number),
                    "bbox": _extent(*box),
                    "area": area,
                    "iscrowd": 0,
                }
            )
        for number, score, *box in guesses.astype(float).tolist():
            results.append(
                {
                    "image_id": k,
                    "category_id": int(number),
                    "bbox": _extent(*box),
                    "score": score,
                }
            )
    numbers = {row["category_id"] for row in (*annotations, *results)}
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO()
        truth.dataset = {
            "images": [{"id": k} for k in range(1, len(boxes) + 1)],
            "annotations": annotations,
            "categories": [{"id": number} for number in sorted(numbers)],
        }
        truth.createIndex()
        judge = COCOeval(truth, truth.loadRes(results), "bbox")
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
    return float(judge.stats[0]), float(judge.stats[1])


def _extent(y1: float, x1: float, y2: float, x2: float) -> list[float]:
    """Returns x, y, width and height of a box."""
    return [x1, y1, x2 - x1, y2 - y1]
