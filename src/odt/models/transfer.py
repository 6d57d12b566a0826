"""Transfer learning: models with new last layers, and low-rank adapters."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from odt.arguments import checked_arguments
from odt.core.export.class_scores import class_scores
from odt.core.export.head_metadata import holds_names
from odt.core.export.language_names import LOGITS
from odt.core.export.read_back import stored_entry
from odt.core.export.remedies import before_decoder
from odt.core.export.replace_head import Head, ModelWithHead
from odt.core.export.replace_head import replace_head as replaced
from odt.core.formats.gguf.reader import ENTRY
from odt.core.lowering.low_rank import new_adapters
from odt.core.model.model import Model as File
from odt.core.recipe.lowered_model import lower_model
from odt.core.recipe.option_values import check_whole, whole_numbers
from odt.errors import OptionError, UnsupportedError
from odt.habits import known_arguments
from odt.models.bases import find_base
from odt.models.creation import Activation, form_of
from odt.models.detector_classes import class_names, different_names, with_new_classes
from odt.models.model import Model, Path, file_of, lowered_of
from odt.text import quantity


@known_arguments()
@checked_arguments
def replace_head(
    model: Model | Path,
    classes: int | Sequence[str] | None = None,
    *,
    like: Path | tuple[Any, Any] | None = None,
    activation: Activation | None = None,
    hidden: Sequence[int] = (),
    after: int | None = None,
    classifier: bool = False,
    max_detections: int | None = None,
    seed: int = 0,
    show: Callable[[str], object] | None = None,
) -> Model:
    """Replaces the last layers of a model by new ones, for another task (transfer learning).

    In signatures the new output gets the name of the first old one. Metadata is kept, except the
    class names, which become those of `classes` or `like`, and the training info, which is removed.

    A detector gets new classes: only the layers that compute the class scores of each anchor or
    cell are replaced. Detectors are models that end in TFLite_Detection_PostProcess (SSD,
    EfficientDet-Lite), in class probabilities of a grid of cells (FOMO), or in codes and one score
    of each anchor (BlazeFace).

    Args:
        model: a model, the path of its file, or "mobilenet" (photos) or "keywords" (sounds) of the
            package odt-models.
        classes: number of outputs of the new last layer: classes, or values of a regression. Or the
            names of the classes, which a detector needs. A TFLite file stores the names as labels
            in its metadata, and a Circle file stores them in its preprocessing record.
        like: data that the model will be trained on, instead of `classes`: path of a data file, or
            a pair of arrays (x, y), as in `new_model`; for a detector, a data file of boxes.
        activation: softmax if each sample has one class; sigmoid if classes do not exclude each
            other, or for one yes/no output; linear for regression. It determines the default loss:
            categorical cross-entropy, binary cross-entropy, or none. Default: as in `like`, else
            softmax.
        hidden: units of further new layers before the last, each FULLY_CONNECTED with RELU.
        after: position of the operator whose output the new layers read. Default: the last operator
            that pools over height and width. If there is none, the new layers read the input of the
            last layer with weights.
        classifier: whether a model with several outputs, or with several positions in its output,
            becomes a classifier of whole samples, without these outputs. `after` implies it.
        max_detections: largest number of boxes that a detector returns for a sample. Default: the
            number in the file.
        seed: random seed of the new weights.
        show: called with each line of what was replaced, such as `print`: the new output, the
            features that it reads and other choices of `after`, and the operators that train alone
            at first.

    Returns:
        The new model.

    Raises:
        ModelError: if the model cannot be read, or has no output that the new layers can read.
        OptionError: if `after` is not the position of an operator, the activation is unknown,
            a number is below 1 (`classes` with softmax: below 2), or the file has no place for
            names of classes.
        UnsupportedError: if odt cannot compute a remaining operator, or the model is not a detector
            and has several outputs or positions.
        DataError: if the data cannot be read.
        MissingPackageError: if odt-models is not installed.
    """
    _check_one(classes, like)
    if isinstance(model, str):
        base = find_base(model)
        model = base.path
        after = base.after if after is None else after
    file = file_of(model)
    file.check_flatbuffer("replace_head")
    check_whole("after", after, 0)
    check_whole("seed", seed, 0)
    if not classifier and after is None:
        scores = class_scores(file)
        if scores is not None:
            _refuse_layers(activation, hidden)
            names = class_names(file, classes, like)
            detector = with_new_classes(file, scores, names, seed, max_detections)
            if show is not None:
                for line in detector.lines:
                    show(line)
            return Model(detector.file)
        _check_output(file)
    if max_detections is not None:
        rule = "must be left out for a classifier, which returns no boxes"
        raise OptionError("max_detections", rule, max_detections)
    head = head_of(classes, like, activation, hidden)
    if like is None and head.names:
        _check_names(file, head)
    new = replaced(file, head, after=after, seed=seed)
    if show is not None:
        outputs = ", ".join(map(file.graph.label, file.graph.outputs))
        nouns = ("value",) if head.activation == "linear" else ("class", "classes")
        show(f"{quantity(head.outputs, *nouns)} in place of {outputs}")
        show(_reads(new))
        show(
            f"The new layers train alone at first, as with `last={head.operators}`; `last=-1` "
            "trains all."
        )
    return Model(new.model)


def _check_one(classes: object, like: object) -> None:
    """Raises OptionError unless exactly one of `classes` and `like` is given."""
    if (classes is None) == (like is None):
        actual = "none" if like is None else "both"
        raise OptionError("classes, like", "one of them must be given", actual)


def _check_names(file: File, head: Head) -> None:
    """Raises OptionError for class names that the new model cannot hold."""
    rule = ""
    if head.activation == "linear":
        rule = "must be a number with activation linear, whose values are no classes"
    elif not holds_names(file):
        rule = (
            f"must be a number for {file.path}, which is Circle without a preprocessing "
            "record and so has no place for names"
        )
    if rule:
        raise OptionError("classes", rule, ",".join(head.names))


def _refuse_layers(activation: object, hidden: Sequence[int]) -> None:
    """Raises OptionError for options of new layers of a classifier."""
    values = {"activation": activation, "hidden": whole_numbers("hidden", hidden, 1)}
    for name, value in values.items():
        if value:
            rule = "must be left out for a detector, which gets layers like its old ones"
            raise OptionError(name, rule, value)


def _check_output(file: File) -> None:
    """Raises UnsupportedError for several outputs, or several positions in one."""
    graph = file.graph
    shapes = [graph.tensors[i].spec.shape for i in graph.outputs]
    if len(shapes) == 1 and sum(size > 1 for size in shapes[0][1:]) <= 1:
        return
    if decoder := before_decoder(lower_model(file)):
        raise UnsupportedError(f"{decoder} A classifier of whole samples needs `classifier=True`.")
    outputs = (f"{n} {shape}" for n, shape in zip(graph.output_names, shapes, strict=True))
    raise UnsupportedError(
        f"{file.path}: must have one output with one position, or be a detector that ends in "
        "TFLite_Detection_PostProcess or in a grid of cells, but got "
        f"{', '.join(outputs)}. For a classifier of whole samples, without these outputs, give "
        "`classifier=True`."
    )


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
    classes: int | Sequence[str] | None,
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
    _check_one(classes, like)
    units = whole_numbers("hidden", hidden, 1)
    if like is None:
        names = different_names(classes) if isinstance(classes, Iterable) else ()
        count: Any = len(names) if isinstance(classes, Iterable) else classes
        check_whole("classes", count, 1)
        return Head(int(count), units, activation or "softmax", names)
    form = form_of(like)
    if len(form.output_shape) != 1:
        rule = "must have targets with one axis for each sample"
        raise OptionError("like", rule, form.output_shape or "none")
    names = form.classes if (activation or form.activation) != "linear" else ()
    return Head(form.output_shape[0], units, activation or form.activation, names)


@known_arguments()
@checked_arguments
def lora(
    model: Model | Path,
    rank: int,
    *,
    target: str | None = None,
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
        rank: rank r of the adapters: from 1 to the largest that an adapted weight can have, the
            smaller of its sizes.
        target: pattern of the names or the operators of the weights that get an adapter, among
            constant weights of FULLY_CONNECTED, CONV_2D of 1×1 and BATCH_MATMUL. Default: all of
            them; of a language model from GGUF, all but the layer that computes the logits, as
            PEFT's all-linear.
        alpha: α. Default: the rank, so that the factor is 1.
        seed: random seed of A.

    Returns:
        The model with adapters.

    Raises:
        ModelError: if the model cannot be read.
        OptionError: if a value is invalid, the pattern matches no such weight, or the model has
            adapters already.
    """
    if isinstance(model, Model) and model._adapters is not None:
        raise OptionError("model", "must have no adapters yet", "some")
    check_whole("seed", seed, 0)
    graph, file = lowered_of(model).graph, file_of(model)
    is_language_model = stored_entry(file, ENTRY) is not None
    without = (LOGITS,) if target is None and is_language_model else ()
    adapters = new_adapters(graph, rank, target or "*", alpha, seed, without)
    return Model(file, adapters)
