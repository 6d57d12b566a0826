"""Names of the class slots of a detector."""

from odt.core.formats.flatbuffer.tflite_metadata import (
    associated_file,
    read_metadata,
    read_record,
)
from odt.core.model.model import Model

VALUE_LABELS = 3  # of AssociatedFileType: a line names a value


def slot_labels(model: Model) -> tuple[str, ...]:
    """Returns the labels of the class slots that a model's file names; empty for none.

    They are the classes of odt's record, or the lines of the file that TFLite Model Metadata names
    for the values of an output.

    Raises:
        DataError: if odt's record is damaged.
    """
    record = read_record(model)
    if record is not None and record.boxes.get("classes"):
        return in_slots(record.boxes["classes"], record.boxes.get("slots", ()))
    content = read_metadata(model) or {}
    for graph in content.get("subgraph_metadata", [])[:1]:
        for tensor in graph.get("output_tensor_metadata", []):
            for file in tensor.get("associated_files", []):
                if file.get("type") == VALUE_LABELS and isinstance(file.get("name"), bytes):
                    data = associated_file(model, file["name"].decode("utf-8", "replace"))
                    return tuple(data.decode("utf-8", "replace").split("\n"))
    return ()


def in_slots(names: list[str], slots: object) -> tuple[str, ...]:
    """Returns the names of classes by slot, "" for slots without a class.

    Args:
        names: names of the classes.
        slots: slot of each class; other values for the first slots.
    """
    if not isinstance(slots, list) or sorted(set(slots)) != sorted(slots):
        return tuple(names)
    if len(slots) != len(names) or not all(0 <= slot < 1 << 16 for slot in slots):
        return tuple(names)
    by_slot = dict(zip(slots, names, strict=True))
    return tuple(by_slot.get(slot, "") for slot in range(max(slots) + 1))
