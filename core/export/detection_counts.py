"""Counts in the options of a detector's post-processing operator: classes and detections."""

import struct
from collections.abc import Iterator, Mapping

from odt.core.formats.flatbuffer.detection_postprocess import (
    OPERATOR,
    change_counts,
    read_options,
)
from odt.core.formats.flatbuffer.flatbuffer import FlatBuffer, Table
from odt.core.formats.flatbuffer.reader import parse_model
from odt.core.formats.flatbuffer.slots import ModelSlot, OperatorSlot, SubGraphSlot, TensorSlot
from odt.core.model.graph import Node
from odt.core.model.model import Model
from odt.core.options.model_options import MODEL_OPTIONS
from odt.core.recipe.option_values import check_option
from odt.errors import ModelError, OptionError

BOXES = 1  # axis of the boxes in an output
MAX_SIZE = 2**31 - 1  # of an axis


def with_max_detections(model: Model, count: int | None) -> Model:
    """Returns a model whose post-processing returns another number of boxes; all else stays.

    Args:
        model: the model.
        count: largest number of boxes, also in the shapes of the outputs; None to keep it.

    Raises:
        OptionError: if the model has no post-processing operator, or the count is below 1.
        ModelError: if the operator's options are damaged, or the outputs would be too large.
        LostFileError: if the model's file became shorter.
    """
    if count is None:
        return model
    check_option(MODEL_OPTIONS["max_detections"], count)
    if not _post_process(model):
        rule = "must be left out for a model that does not end in TFLite_Detection_PostProcess"
        raise OptionError("max_detections", rule, count)
    return with_counts(model, {"max_detections": count})


def with_counts(model: Model, counts: Mapping[str, int]) -> Model:
    """Returns a model with other counts in the options of its post-processing, if it has one.

    Args:
        model: the model.
        counts: new count by name: num_classes, max_detections.

    Raises:
        ModelError: if the operator's options are damaged, or the outputs would be too large.
        LostFileError: if the model's file became shorter.
    """
    node = _post_process(model)
    if node is None:
        return model
    where = f"{model.path}: operator {node.origin} ({node.op})"
    old = read_options(node.options, where)
    graph = list(FlatBuffer(model.path, model.data).root().tables(ModelSlot.SUBGRAPHS, "subgraph"))[
        model.subgraph
    ]
    operator = list(graph.tables(SubGraphSlot.OPERATORS, "operator"))[node.origin]
    at, nbytes = operator.vector(OperatorSlot.CUSTOM_OPTIONS, 1, "custom options")
    data = bytearray(model.data)
    data[at : at + nbytes] = change_counts(node.options, counts, where)
    if "max_detections" in counts:
        per_detection = int(old["max_classes_per_detection"])
        before = int(old["max_detections"]) * per_detection
        size = counts["max_detections"] * per_detection
        if size > MAX_SIZE:
            raise ModelError(
                f"{where}: max_detections · max_classes_per_detection must be at most {MAX_SIZE}, "
                f"but got {counts['max_detections']} · {per_detection}"
            )
        after = struct.pack("<i", size)
        tensors = list(graph.tables(SubGraphSlot.TENSORS, "tensor"))
        for i in node.outputs:
            for place in _places_of_size(tensors[i], before):
                data[place : place + len(after)] = after
    model.check_file()
    return parse_model(memoryview(bytes(data)), model.path, model.signature)


def _post_process(model: Model) -> Node | None:
    return next((node for node in model.graph.nodes if node.op == OPERATOR), None)


def _places_of_size(tensor: Table, size: int) -> Iterator[int]:
    """Yields where a tensor's shape and its signature have a number of boxes."""
    for slot in (TensorSlot.SHAPE, TensorSlot.SHAPE_SIGNATURE):
        shape = tensor.numbers(slot, "shape")
        if len(shape) > BOXES and shape[BOXES] == size:
            yield tensor.vector(slot, 4, "shape")[0] + 4 * BOXES
