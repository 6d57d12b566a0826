"""Transfer learning: models with new last layers, and low-rank adapters."""

from collections.abc import Callable, Sequence
from typing import Any

from odt.core.export.replace_head import Head, ModelWithHead
from odt.core.export.replace_head import replace_head as replaced
from odt.core.lowering.low_rank import new_adapters
from odt.errors import OptionError
from odt.models.bases import find_base
from odt.models.creation import Activation, form_of
from odt.models.model import Model, Path, file_of, lowered_of


def replace_head(
    model: Model | Path,
    classes: int | None = None,
    *,
    like: Path | tuple[Any, Any] | None = None,
    activation: Activation | None = None,
    hidden: Sequence[int] = (),
    after: int | None = None,
    seed: int = 0,
    show: Callable[[str], object] | None = None,
) -> Model:
    """Replaces the last layers of a model by new ones, for another task (transfer learning).

    In signatures the new output gets the name of the first old one. Metadata is kept, except the
    class names, which become those of `like`, and the training info, which is removed.

    Args:
        model: a model, the path of its file, or "mobilenet" (photos) or "keywords" (sounds) of the
            package odt-models.
        classes: number of outputs of the new last layer: classes, or values of a regression.
        like: data that the model will be trained on, instead of `classes`: path of a data file, or
            a pair of arrays (x, y), as in `new_model`.
        activation: softmax if each sample has one class; sigmoid if classes do not exclude each
            other, or for one yes/no output; linear for regression. It determines the default loss:
            categorical cross-entropy, binary cross-entropy, or none. Default: as in `like`, else
            softmax.
        hidden: units of further new layers before the last, each FULLY_CONNECTED with RELU.
        after: position of the operator whose output the new layers read. Default: the last
            operator that pools over height and width; without one, the new layers read the input
            of the last layer with weights.
        seed: random seed of the new weights.
        show: called with each line of what was replaced, such as `print`: the new output, the
            features that it reads and other choices of `after`, and the operators that train alone
            at first.

    Returns:
        The new model.

    Raises:
        ModelError: if the model has no output that the new layers can read.
        OptionError: if `after` is not the position of an operator, the activation is another one,
            or a number is below 1 (`classes` with softmax: below 2).
        UnsupportedError: if odt cannot compute a remaining operator.
        DataError: if the data cannot be read.
        MissingPackageError: if odt-models is not installed.
    """
    head = head_of(classes, like, activation, hidden)
    if isinstance(model, str):
        base = find_base(model)
        model = base.path
        after = base.after if after is None else after
    file = file_of(model)
    new = replaced(file, head, after=after, seed=seed)
    if show is not None:
        names = ", ".join(map(file.graph.label, file.graph.outputs))
        singular, plural = (
            ("value", "values") if head.activation == "linear" else ("class", "classes")
        )
        show(f"{head.outputs} {singular if head.outputs == 1 else plural} in place of {names}")
        show(_reads(new))
        show(
            f"The new layers train alone at first, as with `last={head.operators}`; `last=-1` "
            "trains all."
        )
    return Model(new.model)


def _reads(new: ModelWithHead) -> str:
    """Describes the features that the new layer reads, and the other choices."""
    features = new.features
    source = (
        "the model's input"
        if features.operator is None
        else f"operator {features.operator} {features.kind}"
    )
    others = ", ".join(f"`after={f.operator}` ({f.kind}, {width})" for f, width in new.others)
    choices = others and f"; other choices: {others}"
    return f"The new layer reads {new.width} features of {source}{choices}."


def head_of(
    classes: int | None,
    like: Path | tuple[Any, Any] | None,
    activation: str | None,
    hidden: Sequence[int],
) -> Head:
    """Returns the description of the new layers; arguments are those of `replace_head`.

    Raises:
        OptionError: unless exactly one of `classes` and `like` is given, or if targets have several
            axes.
        DataError: if the data cannot be read.
    """
    if (classes is None) == (like is None):
        actual = "none" if like is None else "both"
        raise OptionError("classes, like", "one of them must be given", actual)
    if like is None:
        return Head(classes or 0, tuple(hidden), activation or "softmax")
    form = form_of(like)
    if len(form.output_shape) != 1:
        rule = "must have targets with one axis for each sample"
        raise OptionError("like", rule, form.output_shape or "none")
    names = form.classes if (activation or form.activation) != "linear" else ()
    return Head(form.output_shape[0], tuple(hidden), activation or form.activation, names)


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
    (O, r) is 0, so at first the model computes the same as before. `Trainer.export` and
    `Model.save` merge the adapters into the weights; `Trainer.export_adapters` writes them alone.
    Source: Hu et al., LoRA: Low-Rank Adaptation of Large Language Models (2021).

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
