"""Transfer learning: models with a new last layer."""

from collections.abc import Sequence
from typing import Literal

from odt.core.export.replace_head import Head
from odt.core.export.replace_head import replace_head as replaced
from odt.model import Model, Path, file_of


def replace_head(
    model: Model | Path,
    classes: int,
    *,
    activation: Literal["softmax", "sigmoid", "linear"] = "softmax",
    hidden: Sequence[int] = (),
    after: int | None = None,
    seed: int = 0,
) -> Model:
    """Replaces the last layers of a model with new ones for another task (transfer learning).

    Args:
        model: a model or the path of its file.
        classes: number of outputs of the new last layer: classes, or values of a regression.
        activation: softmax if each sample has one class; sigmoid if classes do not exclude each
            other, or for one yes/no output; linear for regression. The default loss is categorical
            cross-entropy for softmax and binary cross-entropy for sigmoid; linear outputs have
            none.
        hidden: units of additional layers before the last, each FULLY_CONNECTED with RELU.
        after: position of the operator whose output the new layers read. None selects the last
            features that are pooled over height and width; if there are none, the input of the last
            layer with weights.
        seed: random seed of the new weights.

    Returns:
        The new model.

    Raises:
        ModelError: if the model has no output that the new layers can read.
        OptionError: if `after` is not the position of an operator, the activation is unknown, or a
            number is below 1 (with softmax, `classes` below 2).
        UnsupportedError: if odt cannot compute a remaining operator.
    """
    head = Head(classes, tuple(hidden), activation)
    return Model(replaced(file_of(model), head, after=after, seed=seed).model)
