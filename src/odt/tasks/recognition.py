"""Recognizes the task of a model."""

from odt.core.model.model import Model
from odt.tasks import anchors, cells
from odt.tasks.detector import Detector


def detector_of(model: Model) -> Detector | None:
    """Returns the detector that a model is; None for other models.

    Raises:
        ModelError: if the model's post-processing operator is damaged.
    """
    return anchors.recognize(model) or cells.recognize(model)
