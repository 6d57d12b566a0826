"""The recipe of a training run: the one place where the API and its commands prepare it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from odt.core.model.graph import Graph
from odt.core.options.option import ByOutput, ByPattern, RowName
from odt.core.options.training_options import BATCH, RECIPE_OPTIONS
from odt.core.recipe.option_values import check_mapping
from odt.core.recipe.prepare import Recipe, Request, prepare
from odt.core.recipe.sample_specs import SampleSpecs
from odt.errors import OptionError, UnsupportedError
from odt.kernels.registry import LOSSES, OPTIMIZERS
from odt.kernels.rows.scalars import plain
from odt.kernels.rows.scheduledef import Schedule
from odt.loss import loss_text
from odt.models.model import Model, forget_lowered, lowered_of
from odt.optimizer import Optimizer
from odt.training import option_forms as forms
from odt.training.option_forms import Pairs
from odt.training.trainable import Trainable, selection_of, trainable_of

if TYPE_CHECKING:
    from odt.training.teacher import Teacher

# Returns the fields of TrainingInfo that a checkpoint stores for a graph.
Saved: TypeAlias = Callable[[Graph], Mapping[str, Any]]


def request_of(  # noqa: D417 - `odt.Trainer` describes the arguments
    model: Model,
    *,
    loss: Any = None,
    optimizer: str | Optimizer | None = None,
    learning_rate: float | Schedule | None = None,
    schedule: Schedule | None = None,
    teacher: "Teacher | None" = None,
    trainable: Trainable | None = None,
    output_losses: Pairs[Any] | None = None,
    hyper_parameters: Mapping[str, Any] | None = None,
    **options: Any,
) -> Request:
    """Returns arguments of `odt.Trainer` in the form that `core` uses.

    Args:
        model: the model, whose outputs are counted if losses are given by output.
        options: the other options of RECIPE_OPTIONS.

    Raises:
        OptionError: if a value has none of the forms of its argument.
    """
    check_mapping("hyper_parameters", hyper_parameters)
    values = dict(hyper_parameters or {})
    if isinstance(optimizer, Optimizer):
        values = optimizer.hyper_parameters() | values
        learning_rate = plain(optimizer.learning_rate) if learning_rate is None else learning_rate
        optimizer = optimizer.name
    if isinstance(learning_rate, Schedule):
        schedule = replace(learning_rate, initial_learning_rate=None)
        learning_rate = learning_rate.initial_learning_rate
    if schedule is not None and not isinstance(schedule, Schedule):
        raise OptionError("schedule", "must be a Schedule, such as `odt.CosineDecay()`", schedule)
    if forms.are_several(loss):
        graph = lowered_of(model).graphs.graph
        loss, output_losses = None, forms.losses_of(loss, output_losses, graph)
    options |= {
        "loss": loss,
        "output_losses": output_losses,
        "optimizer": optimizer,
        "learning_rate": learning_rate,
        "schedule": schedule,
    }
    if teacher is not None:
        options |= {"teacher_weight": teacher.weight, "temperature": teacher.temperature}
    chosen = trainable_of(trainable)
    return Request(
        {n: _in_core(n, v) for n, v in options.items() if v is not None},
        values,
        last=chosen.last,
        operators=forms.listed_of(chosen.operators),
        selection=selection_of(chosen),
    )


def _in_core(name: str, value: Any) -> Any:
    """Returns the value of an option in the form that `core` uses."""
    match RECIPE_OPTIONS[name].kind:
        case RowName(register) if register is LOSSES:
            return loss_text(value)
        case RowName(register) if register is OPTIMIZERS:
            return forms.name_of(value)
        case ByOutput(RowName()):
            return tuple((str(i), loss_text(v)) for i, v in forms.pairs_of(name, value)) or None
        case ByOutput():
            pairs = forms.pairs_of(name, forms.numbered(value))
            return tuple((str(i), number) for i, number in pairs) or None
        case ByPattern(has_default=has_default):
            by_default = has_default and isinstance(value, float | int)
            return forms.pairs_of(name, {"": value} if by_default else value)
    return value


def recipe_of(
    model: Model, request: Request, saved: Saved | None = None, *, trains: bool = True
) -> tuple[Recipe, SampleSpecs]:
    """Prepares the training of a model; returns its recipe and the specs of its samples.

    Args:
        model: the model.
        request: options of the user.
        saved: returns, for a graph, the fields of TrainingInfo that a checkpoint stores.
        trains: whether the recipe is for training: errors then say what could train.

    Raises:
        ModelError: if the training info of the file or the checkpoint is invalid.
        OptionError: if options contradict each other or the model.
        UnsupportedError: if odt cannot compute an operator; it says what could train.
    """
    lowered = lowered_of(model)
    try:
        recipe = prepare(lowered, request, saved)
        samples = recipe.samples  # shapes of outputs, for which all operators are computed
    except UnsupportedError as e:
        if not trains:
            raise
        from odt.core.export.remedies import with_remedy

        raise with_remedy(e, lowered) from None
    if recipe.info.qas or recipe.info.batch_norm == BATCH:
        forget_lowered(model)  # the recipe has a lowered model of its own
    return recipe, samples
