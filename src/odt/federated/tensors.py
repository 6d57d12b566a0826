"""The tensors that travel: what a trainer trains, and running statistics that move, by name."""

from odt.arguments import checked_arguments
from odt.core.runtime.parameters import by_name
from odt.errors import OptionError
from odt.federated.checks import check_tensors
from odt.federated.update import Tensors
from odt.training.trainer import Trainer


@checked_arguments
def tensors_of(trainer: Trainer) -> Tensors:
    """Returns copies of what a trainer trains, and of running statistics that it moves.

    Args:
        trainer: a trainer of all weights, a head, adapters or sparse channels.

    Returns:
        name → array in the order of the model: the whole weight; with `sparse`, (K, …) the K
        output channels that train; with `batch_norm="batch"`, also (C,) running means and
        variances.

    Raises:
        OptionError: if no weight trains.
    """
    core = trainer.session.build()
    values = core.parameters.values()
    if not values:
        raise OptionError("trainable", "must select weights", "none")
    values |= {i: a.copy() for i, a in core.parameters.statistics.arrays.items()}
    return by_name(core.graph, {i: values[i] for i in sorted(values)})


@checked_arguments
def load_tensors(trainer: Trainer, tensors: Tensors, where: str = "server") -> None:
    """Sets what a trainer trains, and resets its optimizer state; all of it or nothing.

    A running variance below 0, which a server's optimizer or rounding may leave, becomes 0.

    Args:
        trainer: a trainer.
        tensors: tensors with the names, shapes and dtypes of `tensors_of`.
        where: first words of a message.

    Raises:
        DataError: if names, shapes or dtypes differ, or a value is not finite.
    """
    core = trainer.session.build()
    trained = core.parameters.trained
    statistics = core.parameters.statistics
    arrays = {**trained, **statistics.arrays}
    expected = by_name(core.graph, {i: arrays[i] for i in sorted(arrays)})
    check_tensors(tensors, expected, where, "The model is unchanged.")
    values = {i: tensors[name] for i, name in zip(sorted(arrays), expected, strict=True)}
    core.parameters.restart({i: values[i] for i in trained})
    statistics.restart({i: values[i] for i in statistics.arrays})
