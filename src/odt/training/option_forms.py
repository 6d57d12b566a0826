"""Conversions of Python arguments to the form that `core` uses."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from odt.core.model.graph import Graph
from odt.core.recipe.option_values import check_whole, words_of
from odt.core.recipe.output_losses import by_output
from odt.errors import OptionError
from odt.text import parse_size

T = TypeVar("T")
Pairs: TypeAlias = Mapping[str, T] | Sequence[tuple[str, T]]


def pairs_of(field: str, values: Pairs[T] | None) -> tuple[tuple[str, T], ...]:
    """Returns the (key, value) pairs of a mapping or of a sequence of pairs.

    Args:
        field: name of the argument.
        values: the mapping or the pairs; None for none.

    Raises:
        OptionError: if they are neither.
    """
    if isinstance(values, Mapping):
        values = tuple(values.items())
    is_list = values is None or isinstance(values, Sequence)
    pairs = tuple(values or ()) if is_list else ()
    if not is_list or not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
        raise OptionError(field, "must be a mapping or pairs", repr(values))
    return tuple((key, value) for key, value in pairs)


def numbered(values: Any) -> Any:
    """Returns a list of one value for each output as a mapping by number; other values as they are.

    Args:
        values: the values; None for none.
    """
    if not isinstance(values, list | tuple) or any(isinstance(v, list | tuple) for v in values):
        return values
    return {str(k): value for k, value in enumerate(values)}


def are_several(loss: Any) -> bool:
    """Whether a loss is a mapping or list of one for each output, not a pair of functions."""
    pair = isinstance(loss, tuple) and all(map(callable, loss))
    return isinstance(loss, Mapping | list | tuple) and not pair


def losses_of(
    several: Any, output_losses: Pairs[Any] | None, graph: Graph
) -> list[tuple[str, Any]]:
    """Returns the losses of single outputs as pairs.

    Args:
        several: a mapping from outputs to losses, which gives other outputs none; or a list with a
            loss for each output.
        output_losses: the argument of that name, which must be None.
        graph: graph with the outputs.

    Raises:
        OptionError: if `output_losses` is given too, the list has another length, the graph has no
            such output, or no output has a loss.
    """
    outputs = len(graph.outputs)
    if output_losses is not None:
        raise OptionError("output_losses", "must be left out with losses by output", "both")
    if not isinstance(several, Mapping) and len(several) != outputs:
        rule = f"must have a loss for each of the {outputs} outputs, or None for none"
        raise OptionError("loss", rule, f"{len(several)} losses")
    pairs = [(str(k), v or "none") for k, v in pairs_of("loss", numbered(several))]
    losses = by_output(graph, "loss", pairs)
    if all(loss == "none" for loss in losses.values()):
        raise OptionError("loss", "must give an output a loss", several)
    return [(str(k), losses.get(k, "none")) for k in range(outputs)]


def name_of(value: object) -> Any:
    """Returns a name, in any case and with - or _, as its row has it; other values unchanged."""
    return value.strip().lower().replace("-", "_") if isinstance(value, str) else value


def metric_names(names: str | Sequence[str]) -> tuple[str, ...]:
    """Returns one name of a metric or several names as a tuple.

    Raises:
        OptionError: if a value is not a name.
    """
    return words_of("metrics", names, "must be names, for the first output that has a loss")


def listed_of(positions: str | Sequence[int] | None) -> str | None:
    """Returns positions of operators as text, such as 0-3,7.

    Raises:
        OptionError: if they are neither text nor a list.
    """
    if positions is None or isinstance(positions, str):
        return positions
    if not isinstance(positions, Iterable):
        raise OptionError("operators", "must be text such as 0-3,7, or a list", positions)
    return ",".join(map(str, positions))


def nbytes(size: int | str | None, option: str = "memory_budget") -> int | None:
    """Returns the number of bytes of a size such as 64MB.

    Args:
        size: value of an option.
        option: its name.
    """
    if not isinstance(size, str):
        check_whole(option, size, 0)
        return size
    parsed = parse_size(size)
    if parsed is None:
        raise OptionError(option, "must be a size such as 64MB or 64MiB", size)
    return parsed
