"""circle+ files: Circle models with training info."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from odt.arguments import checked_arguments
from odt.core.model.training_info import TrainingInfo
from odt.core.model.training_json import read_training_json
from odt.core.options.option import CIRCLE_PLUS
from odt.core.options.training_options import RECIPE_OPTIONS
from odt.core.recipe.option_values import check_values, check_whole
from odt.core.recipe.resolve import values_used
from odt.errors import OptionError, warn
from odt.habits import check_arguments
from odt.models.model import Model, Path, file_of
from odt.training.recipes import recipe_of, request_of

# Arguments of Trainer that training info holds.
HELD = (
    *(name for name, row in RECIPE_OPTIONS.items() if row.stored == CIRCLE_PLUS),
    *("hyper_parameters", "trainable"),
)


@checked_arguments
def write_circle_plus(
    model: Model | Path,
    path: Path,
    info: TrainingInfo | Path | None = None,
    **options: Any,
) -> None:
    """Writes a circle+ file: a Circle model with training info; all else in it stays unchanged.

    Options override `info`, and `info` overrides the training info of the model. Values that none
    of them has are the defaults of training.

    Args:
        model: a Circle or TFLite model or the path of its file.
        path: path of the new file, which may be that of a Circle model.
        info: loss, optimizer, batch size and trainable operators, or the path of a JSON file with
            them as circle_plus_gen reads it; None for those that `options` give.
        options: arguments of Trainer that training info holds: loss, reduction, optimizer,
            learning_rate, hyper_parameters, batch_size, trainable.

    Raises:
        ModelError: if the model cannot be read or cannot be a circle+ file, or the new file cannot
            be written.
        OptionError: if options contradict each other or the model, or the circle+ format cannot
            represent the training info.
        OdtError: if the JSON file cannot be read or has invalid values.
    """
    from odt.core.export.exporter import add_training_info

    given = {name: value for name, value in options.items() if value is not None}
    check_arguments(given, write_circle_plus, further=HELD)
    source = model if isinstance(model, Model) else Model(file_of(model))
    add_training_info(file_of(source), _merged(source, info, options), path)


@checked_arguments
def remove_training_info(model: Model | Path, path: Path) -> None:
    """Writes a model without its training info; all else in it stays unchanged.

    Args:
        model: a model or the path of its file.
        path: path of the new file, which may be the model's.

    Raises:
        ModelError: if the model cannot be read, or the new file cannot be written.
    """
    from odt.core.export import exporter

    exporter.remove_training_info(file_of(model), path)


def _merged(
    model: Model, info: TrainingInfo | Path | None, options: Mapping[str, Any]
) -> TrainingInfo:
    """Returns training info with options in place of its values, and a loss if it has none."""
    graph = file_of(model).graph
    if info is not None and not isinstance(info, TrainingInfo):
        info = read_training_json(info, len(graph.nodes), lambda line: warn(f"Warning: {line}"))
    if info is not None:
        _check_operators(info.trainable_ops, len(graph.nodes))
    if info is not None and info.loss is not None and not options:
        check_values(info)
        return info
    fields = {} if info is None else asdict(info)
    request = request_of(model, **options)
    recipe, _ = recipe_of(model, request, lambda _: fields, trains=False)
    return values_used(graph, replace(recipe.info, loss=recipe.losses[0].name))


def _check_operators(positions: object, count: int) -> None:
    """Checks that positions of operators, or None for all, are of a graph with `count` of them."""
    if positions is None:
        return
    if not isinstance(positions, tuple):  # a list is a tuple in TrainingInfo
        raise OptionError("trainable_ops", "must be a list of positions of operators", positions)
    for position in positions:
        check_whole("trainable_ops", position, 0, count - 1)
