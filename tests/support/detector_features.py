"""What the heads of a detector learn from, for a peer that trains them alone."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from odt.core.formats.reader import read_model
from odt.kernels.rows.opdef import Array
from odt.tasks.anchors import AnchorDetector
from odt.tasks.heads import head_operators
from odt.tasks.recognition import detector_of


def write_heads(
    path: Path, model: Path, train: tuple[Array, Sequence[Array]], test: Array, slots: Sequence[int]
) -> AnchorDetector:
    """Writes the file that tests/support/torch_heads.py reads; returns the detector that decodes.

    Args:
        path: the new file.
        model: a quantized SSD; LiteRT computes its features.
        train: photos for training and their boxes.
        test: photos for tests.
        slots: class of the data → slot of the model.
    """
    read = read_model(model)
    detector = detector_of(read)
    assert isinstance(detector, AnchorDetector)
    photos, boxes = train
    positives = float(np.mean([detector.positives(rows) for rows in boxes]))
    detector = detector.prepared(slots, positives)
    columns = read.graph.tensors[detector.post.scores].spec.shape[-1]
    classes, codes = _targets(detector, boxes, columns)
    interpreter = _interpreter(model)
    details = interpreter.get_tensor_details()
    nodes = {node.origin: node for node in read.graph.nodes}
    levels: dict[int, list[list[Array]]] = {}
    for origin in head_operators(read.graph, detector.tensors):
        x, *constants = nodes[origin].inputs
        levels.setdefault(x, []).append([_real(interpreter, details[i]) for i in constants])
    arrays: dict[str, Any] = {
        "classes": classes,
        "codes": codes,
        "columns": columns,
        "positives": positives,
    }
    for k, pair in enumerate(levels.values()):
        for j, (kernel, bias) in enumerate(sorted(pair, key=lambda values: len(values[1]))):
            arrays[f"kernel{k}-{j}"] = kernel.transpose(0, 3, 1, 2)
            arrays[f"bias{k}-{j}"] = bias
    for part, inputs in (("train", photos), ("test", test)):
        for k, values in enumerate(_features(interpreter, inputs, [details[i] for i in levels])):
            arrays[f"{part}{k}"] = values
    with path.open("wb") as file:
        np.savez(file, **arrays)
    return detector


def _targets(detector: AnchorDetector, boxes: Sequence[Array], columns: int) -> tuple[Array, Array]:
    """Returns the class (N, A) of each anchor, or −1, and the code (N, A, 4) of its box."""
    anchors = len(detector.post.anchors)
    classes = np.full((len(boxes), anchors), -1, np.int8)
    codes = np.empty((len(boxes), anchors, 4), np.float32)
    for k, rows in enumerate(boxes):
        scores, *weights = (np.empty((1, anchors, n), np.float32) for n in (columns, 1, 1))
        detector.encode(rows[np.newaxis], (codes[k : k + 1], scores, *weights))
        at = weights[0][0, :, 0] > 0
        classes[k, at] = scores[0, at].argmax(1)
    return classes, codes


def _interpreter(model: Path) -> Interpreter:
    """Returns an interpreter that keeps the values of all tensors."""
    interpreter = Interpreter(
        str(model),
        num_threads=2,
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        experimental_preserve_all_tensors=True,
    )
    interpreter.allocate_tensors()
    return interpreter


def _real(interpreter: Interpreter, detail: dict[str, Any]) -> Array:
    """Returns the values of a quantized tensor as float32."""
    scale, zero = detail["quantization"]
    values: Array = (
        interpreter.get_tensor(detail["index"]).astype(np.float32) - zero
    ) * np.float32(scale)
    return values


def _features(
    interpreter: Interpreter, photos: Array, tensors: Sequence[dict[str, Any]]
) -> list[Array]:
    """Returns the values (N, H, W, C) of some tensors."""
    (image,) = interpreter.get_input_details()
    rows: list[list[Array]] = [[] for _ in tensors]
    for photo in photos:
        interpreter.set_tensor(image["index"], photo[np.newaxis])
        interpreter.invoke()
        for values, detail in zip(rows, tensors, strict=True):
            values.append(_real(interpreter, detail))
    return [np.concatenate(values) for values in rows]
