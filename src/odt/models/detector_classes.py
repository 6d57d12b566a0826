"""Detectors with new classes: what `replace_head` does with them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from odt.core.export.class_columns import class_layers, replace_classes
from odt.core.export.class_scores import ClassScores
from odt.core.export.detection_counts import with_max_detections
from odt.core.formats.flatbuffer.detection_postprocess import read_post_process
from odt.core.model.model import Model as File
from odt.core.recipe.option_values import list_of_names
from odt.dataclass import dataclass
from odt.errors import OptionError
from odt.models.creation import form_of
from odt.models.model import Path
from odt.text import plural, quantity

CLASSIFIER = "For a classifier of whole samples instead, give `classifier=True`."


@dataclass(frozen=True, slots=True)
class NewClasses:
    """A detector with new classes.

    Attributes:
        file: the new model.
        lines: what was replaced, in words.
    """

    file: File
    lines: tuple[str, ...]


def with_new_classes(
    file: File,
    scores: ClassScores,
    names: Sequence[str],
    seed: int,
    max_detections: int | None,
) -> NewClasses:
    """Replaces the classes of a detector.

    Args:
        file: the detector.
        scores: its class scores.
        names: names of the new classes.
        seed: random seed of the new weights.
        max_detections: largest number of boxes that it returns; None for that of the file.

    Raises:
        OptionError: if the detector cannot have so many classes, or returns no boxes itself.
        UnsupportedError: if its class scores do not come from layers alone.
    """
    if not scores.background and scores.classes == 1 < len(names):
        rule = "must be one name for a detector with one score for each box"
        raise OptionError("classes", rule, ", ".join(names))
    layers = class_layers(file.graph, scores.tensor)
    new = with_max_detections(replace_classes(file, scores, names, seed), max_detections)
    operators = ", ".join(str(node.origin) for node in layers)
    count = quantity(len(names), "class", "classes")
    lines = [
        f"{count} in place of {scores.classes} at each {scores.place}: {', '.join(names)}",
        f"New layers: {plural(len(layers), 'operator')} {operators}. Boxes and all "
        "other layers stay.",
    ]
    return NewClasses(new, (*lines, *limit_lines(new)))


def limit_lines(file: File) -> Iterator[str]:
    """Yields how many boxes a model returns, if it ends in the post-processing operator.

    Raises:
        ModelError: if the operator is damaged.
    """
    post = read_post_process(file)
    if post is not None:
        yield (
            f"The model returns at most {post.max_detections} boxes of a sample; `max_detections=` "
            "changes that."
        )


def class_names(
    file: File, classes: int | Sequence[str] | None, like: Path | tuple[Any, Any] | None
) -> tuple[str, ...]:
    """Returns the class names for a detector, from `classes` or from data with boxes.

    Raises:
        OptionError: unless one of both is given, as names or boxes.
        DataError: if the data cannot be read.
    """
    if like is not None:
        names = form_of(like).boxes
        if not names:
            rule = f"must be data with boxes for {file.path}, a detector"
            raise OptionError("like", rule, "data without boxes", CLASSIFIER)
        return names
    if not isinstance(classes, Iterable):
        rule = f"must be names for {file.path}, a detector, such as red,white, or `like=` its boxes"
        raise OptionError("classes", rule, classes, CLASSIFIER)
    return different_names(classes)


def different_names(classes: Iterable[str]) -> tuple[str, ...]:
    """Returns the names of classes.

    Raises:
        OptionError: if a name is no text or empty, or occurs twice.
    """
    names = list_of_names("classes", classes) or ()
    if not all(names) or len(set(names)) < len(names):
        raise OptionError("classes", "must be different names", classes)
    return names
