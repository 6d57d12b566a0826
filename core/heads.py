"""Which loss an output gets, and what it reads."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from odt.core.graph import Graph, Node
from odt.core.lower import file_batch, lower
from odt.core.plans.autodiff import Loss
from odt.core.training_info import LOSSES, TrainingInfo
from odt.errors import OptionError

T = TypeVar("T")

CROSS_ENTROPIES = ("categorical_crossentropy", "sparse_categorical_crossentropy")

# Operators that leave a distribution a distribution.
_SHAPE_ONLY = ("RESHAPE", "SQUEEZE", "EXPAND_DIMS")


def producer(graph: Graph, tensor: int) -> Node | None:
    """The node that makes a tensor."""
    return next((n for n in graph.nodes if tensor in n.outputs), None)


def ends_in_softmax(graph: Graph, output: int) -> bool:
    """Whether an output is probabilities: a SOFTMAX, perhaps in another shape."""
    node = producer(graph, output)
    while node is not None and node.op in _SHAPE_ONLY:
        node = producer(graph, node.inputs[0])
    return node is not None and node.op == "SOFTMAX"


def head(graph: Graph, output: int, name: str | None, reduction: str) -> Loss:
    """The loss on an output of the file's graph.

    Cross-entropy on a final SOFTMAX reads the SOFTMAX's input: one function of the logits, stable
    where the two apart are not. On other outputs it takes them for logits.

    Args:
        graph: as in the file.
        output: tensor index.
        name: of the loss; None where neither the user nor the file named one.
        reduction: sum_over_batch_size or sum.

    Raises:
        OptionError: if no loss is named and the output does not say which one it wants.
    """
    probabilities = ends_in_softmax(graph, output)
    if name is None:
        if not probabilities:
            raise OptionError(
                f"--loss: must be given for {graph.label(output)}, which does not end in SOFTMAX. "
                f"Give one of {', '.join(n.replace('_', '-') for n in LOSSES)}."
            )
        name = "categorical_crossentropy"
    if name not in CROSS_ENTROPIES:
        return Loss(name, output, {})
    mean = {"mean_over_positions": reduction == "sum_over_batch_size"}
    node = producer(graph, output)
    if node is not None and node.op == "SOFTMAX":
        beta = float(node.options.get("beta", 1.0))
        return Loss(name, node.inputs[0], {"from_logits": True, "beta": beta, **mean})
    return Loss(name, output, {"from_logits": not probabilities, **mean})


def heads(graph: Graph, info: TrainingInfo) -> tuple[Loss, ...]:
    """The losses, in the order of the outputs they are on.

    Outputs that are no floats have none, nor have those that info says so of.

    Raises:
        UnsupportedError: if the graph cannot be computed, whatever the loss.
        OptionError: if an output does not say which loss it wants, or none has one.
    """
    if not graph.outputs:
        lower(graph, file_batch(graph))  # says so
    try:
        return _heads(graph, info)
    except OptionError:
        lower(graph, file_batch(graph))
        raise


def _heads(graph: Graph, info: TrainingInfo) -> tuple[Loss, ...]:
    names = _by_output(graph, "--output-loss", info.output_losses)
    weights = _by_output(graph, "--loss-weight", info.loss_weights)
    found = []
    for k, output in enumerate(graph.outputs):
        spec = graph.tensors[output].spec
        fits = spec.dtype.kind == "f" and bool(spec.shape)
        name = names.get(k, info.loss if fits else "none")
        if name == "none":
            continue
        if not fits:
            raise OptionError(
                f"--output-loss: must be none for {graph.label(output)}, which is no tensor of "
                f"floats, but got {name}."
            )
        loss = head(graph, output, name, info.reduction)
        found.append(replace(loss, weight=weights.get(k, 1.0), output=k))
    if not any(loss.weight for loss in found):
        raise OptionError(
            f"{graph.name}: an output must have a loss and a weight above 0, but got none of "
            f"{', '.join(map(graph.label, graph.outputs))}"
        )
    return tuple(found)


def _by_output(graph: Graph, option: str, given: Iterable[tuple[str, T]]) -> dict[int, T]:
    """What was given for single outputs, by their position; the last counts.

    Raises:
        OptionError: if there is no such output.
    """
    names = [graph.tensors[i].name for i in graph.outputs]
    found = {}
    for output, value in given:
        numbers = [k for k, name in enumerate(names) if output in (name, str(k))]
        if len(numbers) != 1:
            raise OptionError(
                f"{option}: must be for one output, {', '.join(names)} or its number, "
                f"but got {output}."
            )
        found[numbers[0]] = value
    return found
