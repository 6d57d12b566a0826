"""Transfer learning: models with a new last layer."""

from odt.core.export.replace_head import replace_head as replaced
from odt.core.recipe.option_values import check_whole
from odt.model import Model, Path, file_of


def replace_head(
    model: Model | Path, classes: int, *, after: int | None = None, seed: int = 0
) -> Model:
    """Replaces the last layer of a model by a new one for other classes (transfer learning).

    Args:
        model: a model or the path of its file.
        classes: number of classes: outputs of the new layer, which ends in SOFTMAX.
        after: position of the operator whose output is the input of the new layer; None for the
            input of the last layer with weights.
        seed: random seed of the new weights.

    Returns:
        The new model.

    Raises:
        ModelError: if the model has no output that the new layer can read.
        OptionError: if `classes` is below 2, or `after` is not the position of an operator.
        UnsupportedError: if odt cannot compute a remaining operator.
    """
    check_whole("classes", classes, 2)
    return Model(replaced(file_of(model), classes, after=after, seed=seed))
