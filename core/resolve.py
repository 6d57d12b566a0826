"""Puts training info together: command line before the model's own, and that before defaults."""

from collections.abc import Mapping
from typing import Any

from odt.core.graph import Graph
from odt.core.training_info import TrainingInfo
from odt.errors import OptionError
from odt.kernels.registry import find_optimizer


def last_operators(graph: Graph, count: int) -> tuple[int, ...] | None:
    """Positions of the last operators of a file; None, for all, if count is −1.

    Raises:
        OptionError: if the file has fewer.
    """
    total = len(graph.nodes)
    if count == -1:
        return None
    if count > total:
        raise OptionError(
            f"--num-of-trainable-ops: must be at most {total}, the model's operators, "
            f"but got {count}. Give -1 for all."
        )
    return tuple(range(total - count, total))


def number_of_last(graph: Graph, operators: tuple[int, ...] | None) -> int:
    """The reverse: how many at the end train, −1 for all; −2 where they are no such set."""
    total = len(graph.nodes)
    if operators is None or set(operators) == set(range(total)):
        return -1
    if set(operators) == set(range(total - len(operators), total)):
        return len(operators)
    return -2


def resolve(
    graph: Graph,
    stored: Mapping[str, Any],
    options: Mapping[str, Any],
    hyper_parameters: Mapping[str, Any],
    num_of_trainable_ops: int | None = None,
) -> TrainingInfo:
    """Training info with nothing left open but a loss that the output decides.

    Args:
        graph: as in the file.
        stored: fields of TrainingInfo that the model carries.
        options: fields the user gave; None where not.
        hyper_parameters: of the optimizer, as the user gave them; None where not.
        num_of_trainable_ops: as the user gave it.

    Raises:
        OptionError: for a value that cannot be.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if num_of_trainable_ops is not None:
        given["trainable_ops"] = last_operators(graph, num_of_trainable_ops)
    fields = {**stored, **given}
    chosen = {name: value for name, value in hyper_parameters.items() if value is not None}
    same = fields.get("optimizer") == stored.get("optimizer")
    fields["hyper_parameters"] = {**(stored.get("hyper_parameters", {}) if same else {}), **chosen}
    info = TrainingInfo(**fields)
    if not 0 < info.learning_rate < float("inf"):
        raise OptionError(
            f"--learning-rate: must be a number above 0, but got {info.learning_rate:g}"
        )
    known = find_optimizer(info.optimizer).attrs.__annotations__
    for name in chosen:
        if name not in known:
            raise OptionError(
                f"--{name.replace('_', '-')}: {info.optimizer} has no such value; "
                f"it has {', '.join('--' + k.replace('_', '-') for k in known)}"
            )
    return info
