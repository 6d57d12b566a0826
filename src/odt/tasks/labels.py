"""Names of the class slots of a detector."""

from collections.abc import Mapping, Sequence
from typing import Any

from odt.core.formats.flatbuffer.tflite_metadata import (
    label_files,
    read_labels,
    read_metadata,
    read_record,
)
from odt.core.model.model import Model

MAX_SLOTS = 1 << 16


def slot_labels(model: Model, slots: int) -> tuple[str, ...]:
    """Returns the labels of the class slots that a model's file names; empty for none.

    They are the classes of odt's record, or the lines of the file that TFLite Model Metadata names
    for the values of an output. With one line more than slots, the first is the background's.

    Args:
        model: the model.
        slots: number of class slots.

    Raises:
        DataError: if odt's record is damaged.
    """
    record = read_record(model)
    if record is not None and record.boxes.get("classes"):
        return _by_slot(record.boxes["classes"], recorded_slots(record.boxes))
    content = read_metadata(model) or {}
    for graph in content.get("subgraph_metadata", [])[:1]:
        for name in label_files(graph.get("output_tensor_metadata", []), ["VALUE"]):
            labels = tuple(read_labels(model, name))
            return labels[1:] if len(labels) == slots + 1 else labels
    return ()


def recorded_slots(boxes: Mapping[str, Any]) -> list[int]:
    """Returns the slot of each class; empty if the classes have the first slots, in order.

    Args:
        boxes: boxes of a preprocessing record. Slots that are damaged are ignored.
    """
    slots, names = boxes.get("slots"), boxes.get("classes", [])
    if not isinstance(slots, list) or len(slots) != len(names):
        return []
    if not all(type(slot) is int and 0 <= slot < MAX_SLOTS for slot in slots):
        return []
    return slots if len({*slots}) == len(slots) else []


def _by_slot(names: Sequence[str], slots: Sequence[int]) -> tuple[str, ...]:
    """Returns the names of classes by slot, "" for slots without a class."""
    if not slots:
        return tuple(names)
    by_slot = dict(zip(slots, names, strict=True))
    return tuple(by_slot.get(slot, "") for slot in range(max(slots) + 1))
