"""Models with a new last layer; apart from odt.model, since the schemas it writes load slowly."""

from odt.core.export.replace_head import replace_head as replaced
from odt.model import Model, Path, file_of


def replace_head(
    model: Model | Path, classes: int, *, after: int | None = None, seed: int = 0
) -> Model:
    """A model with a new last layer, for other classes: the start of transfer learning.

    Args:
        model: a model or its path.
        classes: outputs of the new layer, which ends in SOFTMAX.
        after: position of the operator whose output the new layer reads; None for what the last
            layer with weights reads.
        seed: of the new weights.

    Raises:
        ModelError: if there are no such features.
        OptionError: if there is no such operator.
        UnsupportedError: if an operator that stays cannot be computed.
    """
    return Model(replaced(file_of(model), classes, after=after, seed=seed))
