"""Transfer learning: models with new last layers, and low-rank adapters."""

from collections.abc import Sequence
from typing import Literal

from odt.core.export.replace_head import Head
from odt.core.export.replace_head import replace_head as replaced
from odt.core.lowering.low_rank import new_adapters
from odt.errors import OptionError
from odt.model import Model, Path, file_of, lowered_of


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


def lora(
    model: Model | Path,
    rank: int,
    *,
    target: str = "*",
    alpha: float | None = None,
    seed: int = 0,
) -> Model:
    """Adds low-rank adapters (LoRA) to the weights of a model; only the adapters train.

    For a weight W (O, I), the layer computes y = W x + (α / r) B A x. A (r, I) is random and B
    (O, r) is 0, so that the model computes the same at first. `Trainer.export` and `Model.save`
    merge the adapters into the weights; `Trainer.export_adapters` writes them alone. Source: Hu et
    al., LoRA: Low-Rank Adaptation of Large Language Models (2021).

    Args:
        model: a model or the path of its file.
        rank: rank r of the adapters, 1 or more.
        target: pattern of the names or the operators of the weights that get an adapter, among
            constant weights of FULLY_CONNECTED, CONV_2D of 1×1 and BATCH_MATMUL.
        alpha: α. Default: the rank, so that the factor is 1.
        seed: random seed of A.

    Returns:
        The model with adapters.

    Raises:
        OptionError: if a value is invalid, the pattern matches no such weight, or the model has
            adapters already.
    """
    if isinstance(model, Model) and model._adapters is not None:
        raise OptionError("model", "must have no adapters yet", "some")
    adapters = new_adapters(lowered_of(model).graph, rank, target, alpha, seed)
    return Model(file_of(model), adapters)
