"""Shapes for inputs that a file leaves open."""

from collections.abc import Mapping
from functools import partial

from odt.core.model.model import Model
from odt.core.recipe.interface import resized
from odt.core.recipe.lowered_model import lower_if_supported

SIZES = (224, 16000)  # that many models take: pixels of a side of an image, samples of a sound


def open_axes(model: Model) -> Mapping[int, tuple[int, ...]]:
    """Returns the axes that the file leaves open, other than the batch: input → axes."""
    axes = {i: model.graph.tensors[i].open_axes for i in model.graph.inputs}
    return {i: each for i, each in axes.items() if each and i not in model.input_shapes}


def fitting_shapes(model: Model) -> Mapping[int, tuple[int, ...]]:
    """Returns shapes of the open inputs with which all operators are supported; empty if none are.

    Open axes have size 1 in the file, which is too small for a filter.
    """
    axes_by_input = open_axes(model)
    if not axes_by_input:
        return {}
    for size in SIZES:
        shapes = {}
        for i, axes in axes_by_input.items():
            shape = model.graph.tensors[i].spec.shape
            shapes[i] = tuple(size if k in axes else n for k, n in enumerate(shape))
        if lower_if_supported(partial(resized, model, shapes)):
            return shapes
    return {}
