"""Recognizes the task of a model."""

from odt.core.formats.flatbuffer.tflite_metadata import read_record
from odt.core.model.model import Model
from odt.tasks import anchors, cells, stated_anchors
from odt.tasks.detector import Detector

ANCHORS = "anchors"  # in the object `boxes` of a record


def detector_of(model: Model) -> Detector | None:
    """Returns the detector that a model is; None for other models.

    Raises:
        DataError: if odt's record is damaged.
        ModelError: if the model's post-processing operator is damaged.
        OptionError: if anchors that the user states, or a record, do not fit the model.
    """
    text = anchors_text(model)
    if text:
        return stated_anchors.recognize(model, text)
    return anchors.recognize(model) or cells.recognize(model)


def anchors_text(model: Model) -> str:
    """Returns the anchors that the user states for a model, or its record; "" for none.

    Raises:
        DataError: if odt's record is damaged.
    """
    if model.anchors:
        return model.anchors
    record = read_record(model)
    return str(record.boxes.get(ANCHORS, "")) if record else ""
